// Puts the page together: what is heard is handed to the parts that show it.

import { endActions, refreshSession, showActions, startActions } from "/page/actions.js";
import { forgetSeries, startCharts, takePoints } from "/page/charts.js";
import { Connection } from "/page/connection.js";
import { showErrors } from "/page/errors.js";
import { showFaults } from "/page/faults.js";
import { showProcesses, showStores, showWatch } from "/page/rooms.js";
import { startStories } from "/page/story.js";
import { hideSilence, showEnd, showNumbers, showPlace, showRun, showSilence, showStanding, showWarnings } from "/page/verdict.js";
import { forgetViolations, showViolations, startViolations } from "/page/violations.js";

let last = null;
let end = null;

function show(state) {
  last = state;
  end = null;
  hideSilence();
  showStanding(state);
  showRun(state);
  showNumbers(state, takePoints(state));
  showWarnings(state);
  showViolations(state);
  showErrors(state);
  showFaults(state);
  showStores(state);
  showWatch(state);
  showProcesses(state);
  showActions(state);
  showPlace(state);
}

startCharts();
startViolations();
startStories();
startActions();
new Connection({
  state: show,
  ended(told) {
    end = told;
    showEnd(told);
    endActions();
  },
  lost(sinceMs) {
    // After the end there is nobody to be heard any more, and nothing that could have changed.
    if (!end) showSilence(sinceMs, last);
  },
  found() {
    forgetSeries();
    forgetViolations();
    refreshSession();
  },
});
