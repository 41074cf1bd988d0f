// Puts the page together: what is heard is handed to the parts that show it.

import { refreshSession, showActions, startActions } from "/page/actions.js";
import { forgetSeries, startCharts, takePoints } from "/page/charts.js";
import { Connection } from "/page/connection.js";
import { showErrors } from "/page/errors.js";
import { showFaults } from "/page/faults.js";
import { showProcesses, showStores, showWatch } from "/page/rooms.js";
import { startStories } from "/page/story.js";
import { showThresholds } from "/page/thresholds.js";
import { showNumbers, showPlace, showRun, showSilence, showStanding, showWarnings } from "/page/verdict.js";
import { forgetViolations, showViolations, startViolations } from "/page/violations.js";

let last = null;

/** Show a state; `silentSince` (wall seconds): it is the last one heard, and may not be true any more. */
function show(state, silentSince = null) {
  last = state;
  showSilence(silentSince);
  showStanding(state, silentSince);
  showRun(state, silentSince);
  showNumbers(state, takePoints(state, silentSince), silentSince);
  showWarnings(state);
  showViolations(state);
  showErrors(state);
  showFaults(state, silentSince);
  showStores(state, silentSince);
  showThresholds(state);
  showWatch(state, silentSince);
  showProcesses(state, silentSince);
  showActions(state);
  showPlace(state);
}

startCharts();
startViolations();
startStories();
startActions();
new Connection({
  state: show,
  lost(sinceMs) {
    if (last) show(last, sinceMs / 1000);
    else showSilence(sinceMs / 1000);
  },
  found() {
    forgetSeries();
    forgetViolations();
    refreshSession();
  },
});
