"""Facts about a violation: typed values, each with the sentence that states it and the test that makes it true."""

# fmt: off
from soak.checker.facts.appends import (
    AppendsDuringRead, FaultDuring, LossesAlone, NoRival, NotAcknowledged, NothingElseKnown, OperationsFailed,
    OverlappingAppend, SentOnce, ServerSilent, WriterSilent,
)
from soak.checker.facts.contents import (
    ChangedInPlace, NeverRight, NotAMessage, ReplacedInPlace, RightBefore, RoleDiffers, SameInNormalForm, TextCut,
    TextDiffers,
)
from soak.checker.facts.reads import (
    AnswerWasEmpty, EveryLossRepeats, GapAround, GoneFromTheBeginning, HoleInLog, LastAcknowledged, NeighboursPresent,
    NeverSeen, OutOfOrder, ReadsReplica, RepeatedInSearch, SameText, SeenBefore, SeenThenGone, SentClose, ShownLater,
    StandsElsewhere, StoredNotFound,
)
from soak.checker.facts.servers import (
    AcknowledgedWhileDown, ConfigurationUnknown, CounterRose, EarlierSurvived, FaultHappened, FilesChanged,
    HoleInTail, NoPersistence, NoSurvivorKnown, NotCounted, OtherDataFolder, OtherVersionStarted, Persistence,
    ReplicaPromoted, ServerRestarted, SyncLeftToKernel, TimeToLiveChanged,
)

AnyFact = (
    AppendsDuringRead | FaultDuring | LossesAlone | NoRival | NotAcknowledged | NothingElseKnown | OperationsFailed
    | OverlappingAppend | SentOnce | ServerSilent | WriterSilent
    | ChangedInPlace | NeverRight | NotAMessage | ReplacedInPlace | RightBefore | RoleDiffers | SameInNormalForm
    | TextCut | TextDiffers
    | AnswerWasEmpty | EveryLossRepeats | GapAround | GoneFromTheBeginning | HoleInLog | LastAcknowledged
    | NeighboursPresent | NeverSeen | OutOfOrder | ReadsReplica | RepeatedInSearch | SameText | SeenBefore
    | SeenThenGone | SentClose | ShownLater | StandsElsewhere | StoredNotFound
    | AcknowledgedWhileDown | ConfigurationUnknown | CounterRose | EarlierSurvived | FaultHappened | FilesChanged
    | HoleInTail | NoPersistence | NoSurvivorKnown | NotCounted | OtherDataFolder | OtherVersionStarted | Persistence
    | ReplicaPromoted | ServerRestarted | SyncLeftToKernel | TimeToLiveChanged
)
"""Every kind of fact, for reading them back."""
