"""What an analysis holds: the document of ``report --format json`` (INTERFACE), and some keys more
that the reports need.

Fractions are fractions (0.02 is 2 %), values are in the SI base unit beside them, None stands for
what cannot be computed.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from cnibench.model.cell import Attestation
from cnibench.rundir.schema import Planned

Verdict = Literal["a-better", "b-better", "no-difference-found", "inconclusive"]
Evidence = Literal["proven", "suggestive", "none"]
Basis = Literal["signed-rank test", "joint test", "additive model", "counts", ""]
Replicate = Literal["block", "run"]  # what n counts: several runs of one machine count as runs


class Where(msgspec.Struct, frozen=True, kw_only=True, order=False):
    """The place of a figure (model/coordinates.py): everything that two profiles must share to be
    compared. Rates in bit/s, times in s.

    ``reading`` are those of ``params`` that the reading added to the cell's own (``{"node": "a"}``,
    say). ``environment`` numbers the distinct environments when runs that are not comparable were
    shown side by side.
    """

    placement: str
    path: str
    workload: str
    params: dict[str, Any]
    ip: int
    mtu: int
    cpus: str
    pair: int
    metric: str
    unit: str
    better: str
    testbed: str
    wire: str
    wire_offload: str
    wire_rate: float = 0.0
    pairs: int = 1
    duration: float = 0.0
    warmup_time: float = 0.0
    method: str = "windows"
    slice_length: float = 0.0
    lead_in: float = 0.0
    priority: str = "normal"
    congestion_control: str = ""
    environment: int = 0
    reading: dict[str, Any] = {}


class Result(Where, frozen=True, kw_only=True):
    """One metric of one label: ``n`` blocks, or runs (``replicate``), the interval of the median
    (None where so few give none) and its exact coverage.

    ``spread`` is the standard deviation over the mean; ``values`` has one value for each of
    ``blocks``, ``outliers`` are blocks too; where runs are the replicates, these are their numbers.
    ``failed`` of ``tried`` blocks gave no figure.
    """

    profile: str
    label: str
    fidelity: str
    proxy: str = ""
    n: int
    mean: float
    median: float
    ci_low: float | None
    ci_high: float | None
    confidence: float | None
    spread: float | None
    cycles_source: str = ""
    failed: int = 0
    disturbed: int = 0
    tried: int = 0
    blocks: list[int] = []
    values: list[float] = []
    outliers: list[int] = []
    drift: float | None = None
    drift_p: float | None = None
    dependence: float | None = None
    dependence_p: float | None = None
    replicate: Replicate = "block"


class Pair(Where, frozen=True, kw_only=True):
    """``a`` against ``b``: ``ratio`` = a / b with its interval, ``p`` of the pair alone and
    ``p_holm`` in its family of ``family`` pairs.

    ``basis`` is what verdict, ratio and interval come from: the signed-rank test of the pair; the
    joint test of all pairs (stats/joint.py; ``p_holm`` is then the p that it adjusts, not Holm's);
    the additive model, where so few blocks cannot decide by a test (the p are the test's all the
    same); counts; or nothing. ``evidence``: proven in the family, suggestive (the pair alone would
    have been), or none. ``confidence`` is the level of the pair's own interval, which makes that of
    all hold (docs/statistics.md).

    ``effect`` is the rank-biserial correlation, ``spread`` the standard deviation of the log
    ratios, ``scale`` the same as an outlier does not move it, ``detectable`` (from ``scale``) the
    smallest difference that this many blocks could have found. ``within``: it is proven that the
    two differ by less than this fraction, for all pairs of the family together.
    ``blocks_needed`` is the number that could decide at all. ``exact``: both were counted, not
    measured, and alike in every block, so that the ratio is known and there is no p. ``replicate``:
    what is called a block here is a run, where several runs are reported together.
    """

    a: str
    b: str
    n: int
    ratio: float | None
    ci_low: float | None
    ci_high: float | None
    p: float | None
    p_holm: float | None
    verdict: Verdict
    family: int
    effect: float | None = None
    spread: float | None = None
    scale: float | None = None
    detectable: float | None = None
    within: float | None = None
    blocks_needed: int = 0
    dependence_p: float | None = None
    exact: bool = False
    reason: str = ""
    basis: Basis = ""
    evidence: Evidence = "none"
    confidence: float | None = None
    replicate: Replicate = "block"


class FewRepeats(msgspec.Struct, frozen=True, kw_only=True):
    """What the additive model (stats/additive.py) assumed for a group: normal ``noise`` of the log
    with ``df`` degrees of freedom in all.

    ``prior`` is None where the noise counts as equal in all profiles; else so many degrees of
    freedom of the noise of all are added to each profile's own. ``paired``: what a block adds to
    all profiles is taken out; else repeats of different profiles are unrelated.
    """

    noise: float
    df: float
    prior: float | None
    paired: bool
    replicate: Replicate = "block"


class Group(Where, frozen=True, kw_only=True):
    """``ranking`` has all labels with a figure, the best first, by the estimates of the pairs;
    those that failed often (``failing``) are last. ``order``: those of the others that are not
    significantly different; one label can be in several. ``letters`` says the same a label.

    The latter two are empty where not every pair was compared (``--family baseline``).
    ``failed`` has those labels that gave no figure in some blocks: (how many, of how many); also
    those that never gave one. ``model`` is what verdicts of few repeats rest on.
    """

    order: list[list[str]]
    letters: dict[str, str]
    failed: dict[str, tuple[int, int]] = {}
    ranking: list[str] = []
    failing: list[str] = []
    model: FewRepeats | None = None


class Turning(msgspec.Struct, frozen=True, kw_only=True):
    """Where two labels change places while one parameter is swept: ``first`` is the better one at
    its smallest value, ``then`` after it.

    ``at`` with the interval ``low`` to ``high`` are values of ``swept``, ``up_to`` is the largest
    that was measured. ``verdict``:
    ``turns``, ``none`` (up to ``up_to``), or ``inconclusive`` for the ``reason``. ``n`` is the
    number of blocks.
    """

    first: str
    then: str
    placement: str
    path: str
    workload: str
    params: dict[str, Any]
    ip: int
    metric: str
    swept: str
    up_to: float
    n: int
    verdict: Literal["turns", "none", "inconclusive"]
    at: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str = ""
    environment: int = 0


class Cpp(msgspec.Struct, frozen=True, kw_only=True):
    """Cycles per packet, the mean over ``n`` blocks; ``components`` and ``unclassified`` add up to
    ``total``, idle is apart.

    ``by_block`` has for each component, and for ``total``, one value for each of ``blocks``;
    ``counted`` is the number of samples of perf that all of it was made of, 0 where the run does
    not tell, and ``seconds`` the time in which they were taken. ``outside`` is the share of the
    cycles that ran outside the workload's programs and thus is not in their CPU time, ``idle`` the
    share of the window's that were idle; None where the run does not tell.
    """

    profile: str
    label: str
    placement: str
    path: str
    workload: str
    params: dict[str, Any]
    ip: int
    mtu: int
    cpus: str
    pair: int = 0
    total: float
    cycles_source: str
    packets: float
    components: dict[str, float]
    unclassified: float
    n: int
    fidelity: str = ""
    environment: int = 0
    blocks: list[int] = []
    by_block: dict[str, list[float]] = {}
    counted: int = 0
    seconds: float = 0.0
    outside: float | None = None
    idle: float | None = None


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A cell that gave no figure in one block, or (status ``unsupported``, block -1) a profile that
    cannot be measured there at all.
    """

    label: str
    profile: str
    placement: str
    workload: str
    params: dict[str, Any]
    cell: str
    block: int
    metric: str
    status: str
    reason: str


class Disturbed(msgspec.Struct, frozen=True, kw_only=True):
    """A sample that was measured while something was stopped (docs/disturbances.md): it is stored,
    and no figure has it.

    ``run`` is the number of its run, from 0; ``alone``: its cell has no figure in that run.
    """

    run: int
    label: str
    profile: str
    placement: str
    path: str
    workload: str
    params: dict[str, Any]
    ip: int
    mtu: int
    pair: int
    window: str
    cell: str
    block: int
    reason: str
    alone: bool = False


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """What the machine's host (``steal``, a share of the CPU time), a CPU quota (``quota``, of the
    time) or other programs (``others``, of all CPUs) took from the samples of a cell: ``shares`` of
    those that lost TAKEN or more, to other programs of all of them, for one sample tells little. On
    clusters the shares of ``others`` are those of the CPUs of the busiest node. ``least``: they are
    lower bounds, in slices as well.
    """

    label: str
    cause: Literal["steal", "quota", "others"]
    where: dict[str, Any]  # the coordinates of a record
    environment: int
    shares: list[float]
    least: bool = False


class NodeLoad(msgspec.Struct, frozen=True, kw_only=True):
    """Other programs used ``others`` of the ``cpus`` of a cluster's ``node`` (``a+b``: of the one
    machine that both are on): the median over the samples, a lower bound if ``least``.
    """

    node: str
    others: float
    cpus: int
    least: bool
    environment: int


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """Which run: times in RFC 3339, ``finished`` is '' while cells are missing; ``planned`` is how
    its number of blocks came about, ``facts`` what the user said of it. A pair that differs by less
    than ``resolution`` counts as equal.
    """

    id: str
    name: str
    started: str
    finished: str
    seed: int
    command: str
    tool_version: str
    blocks: int = 0
    duration: float = 0.0
    warmup: float = 0.0
    planned: list[Planned] = []
    resolution: float = 0.05
    facts: dict[str, str] = {}


LEFT_OUT = 0.1  # share of a sample's slices: that more were left out is said
TAKEN = 0.01  # share of a sample's time: that the host or a CPU quota took as much is said


class Analysis(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a report shows. ``run`` and ``environment`` are the first run's, ``runs`` and
    ``environments`` all of them.

    ``samples`` is the number of samples that were measured, disturbed and failed ones included.
    ``independence`` is what the verdicts take for granted about neighbouring blocks, where that is
    doubtful or cannot be seen.
    ``others`` is the median over the samples of the CPUs that other programs used meanwhile, None
    where nobody knows; on clusters those of the busiest node. ``node_load`` has the median of each
    node there. ``left_out`` has the shares of the slices that undisturbed samples left out,
    those above LEFT_OUT. ``taken``: what samples lost to the host, a CPU quota or other programs.
    ``unread`` maps a coordinate that is read back from each sample to the number of samples where
    that failed.
    ``problems``: what is lost, changed, doubled, out of order or not chained in the run
    directories; no figure rests on it.
    """

    schema: int
    problems: list[str] = []
    run: Run
    environment: dict[str, Any]
    results: list[Result]
    groups: list[Group]
    pairs: list[Pair]
    cpp: list[Cpp]
    attestations: list[Attestation]  # a check that a resumed run made again: the last one
    failures: list[Failure]
    summary: list[str]
    notes: list[str]
    baseline: str
    labels: list[str]
    level: float
    independence: str
    runs: list[Run]
    environments: list[dict[str, Any]]
    turning: list[Turning] = []
    disturbed: list[Disturbed] = []
    samples: int = 0
    unread: dict[str, int] = {}
    others: float | None = None
    node_load: list[NodeLoad] = []
    left_out: list[float] = []
    taken: list[Taken] = []
    main: dict[str, str] = {}  # workload to the metric that decides about it
    current: dict[str, str] = {}  # label to what ran on the cluster already, measured as it is
    clear: dict[str, str] = {}  # label that encrypts to that of the same mode without encryption
    unselected: list[str] = []  # labels that were measured and that the report leaves out
    family: Literal["all", "baseline"] = "all"  # pairs that are compared and corrected for
