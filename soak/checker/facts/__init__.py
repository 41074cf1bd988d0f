"""Facts about a violation: typed values, each with the sentence that states it and the test that makes it true.

`holds` decides by the evidence alone, never by the text. A sentence is shown only with a fact that holds.
"""

from __future__ import annotations

from soak.checker.facts.fact import During, Fact, FaultRef, When, overlap, ref_of
from soak.checker.facts.operations import (
    AppendsDuringRead,
    FaultDuring,
    LossesAlone,
    NoRival,
    NothingElseKnown,
    OperationsFailed,
    OverlappingAppend,
    SentOnce,
    ServerSilent,
    WriterSilent,
    appends_during_read,
    spans,
)
from soak.checker.facts.reads import (
    AnswerWasEmpty,
    EveryLossRepeats,
    GapAround,
    GoneFromTheBeginning,
    LastAcknowledged,
    NeighboursPresent,
    NeverSeen,
    OutOfOrder,
    ReadsReplica,
    SameText,
    SeenBefore,
    SeenThenGone,
    SentClose,
    ShownLater,
    StandsElsewhere,
    StoredNotFound,
    next_to,
)
from soak.checker.facts.servers import (
    OFF,
    PERSISTENCE,
    AcknowledgedWhileDown,
    ConfigurationUnknown,
    CounterRose,
    EarlierSurvived,
    FaultHappened,
    FilesChanged,
    NoPersistence,
    NoSurvivorKnown,
    NotCounted,
    OtherDataFolder,
    OtherVersionStarted,
    Persistence,
    ReplicaPromoted,
    ServerRestarted,
    SyncLeftToKernel,
    TimeToLiveChanged,
)
from soak.checker.facts.texts import (
    ChangedInPlace,
    NeverRight,
    NotAMessage,
    ReplacedInPlace,
    RightBefore,
    RoleDiffers,
    SameInNormalForm,
    TextCut,
    TextDiffers,
    encoded,
    is_power_of_two,
    text_difference,
)

AnyFact = (
    FaultHappened | ServerRestarted | NoPersistence | Persistence | ConfigurationUnknown | SyncLeftToKernel
    | AcknowledgedWhileDown | ReplicaPromoted | OtherVersionStarted | FilesChanged | OtherDataFolder | NoSurvivorKnown
    | EarlierSurvived | TimeToLiveChanged | CounterRose | NotCounted | FaultDuring | OperationsFailed | ServerSilent
    | NothingElseKnown | OverlappingAppend | NoRival | LossesAlone | SentOnce | WriterSilent | AppendsDuringRead
    | NeverSeen | SeenThenGone | SeenBefore | StandsElsewhere | NeighboursPresent | GapAround | GoneFromTheBeginning
    | LastAcknowledged | AnswerWasEmpty | ShownLater | ReadsReplica | SameText | EveryLossRepeats | OutOfOrder
    | SentClose | StoredNotFound | ChangedInPlace | RightBefore | NeverRight | NotAMessage | ReplacedInPlace
    | RoleDiffers | TextDiffers | TextCut | SameInNormalForm
)  # fmt: skip
"""Every kind of fact, for reading them back."""

__all__ = [
    "OFF",
    "PERSISTENCE",
    "AcknowledgedWhileDown",
    "AnswerWasEmpty",
    "AnyFact",
    "AppendsDuringRead",
    "ChangedInPlace",
    "ConfigurationUnknown",
    "CounterRose",
    "During",
    "EarlierSurvived",
    "EveryLossRepeats",
    "Fact",
    "FaultDuring",
    "FaultHappened",
    "FaultRef",
    "FilesChanged",
    "GapAround",
    "GoneFromTheBeginning",
    "LastAcknowledged",
    "LossesAlone",
    "NeighboursPresent",
    "NeverRight",
    "NeverSeen",
    "NoPersistence",
    "NoRival",
    "NoSurvivorKnown",
    "NotAMessage",
    "NotCounted",
    "NothingElseKnown",
    "OperationsFailed",
    "OtherDataFolder",
    "OtherVersionStarted",
    "OutOfOrder",
    "OverlappingAppend",
    "Persistence",
    "ReadsReplica",
    "ReplacedInPlace",
    "ReplicaPromoted",
    "RightBefore",
    "RoleDiffers",
    "SameInNormalForm",
    "SameText",
    "SeenBefore",
    "SeenThenGone",
    "SentClose",
    "SentOnce",
    "ServerRestarted",
    "ServerSilent",
    "ShownLater",
    "StandsElsewhere",
    "StoredNotFound",
    "SyncLeftToKernel",
    "TextCut",
    "TextDiffers",
    "TimeToLiveChanged",
    "When",
    "WriterSilent",
    "appends_during_read",
    "encoded",
    "is_power_of_two",
    "next_to",
    "overlap",
    "ref_of",
    "spans",
    "text_difference",
]
