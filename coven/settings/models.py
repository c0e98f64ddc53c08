"""The configuration as closed, frozen models. Loading it is :mod:`coven.settings.loader`.

Every key is documented in ``docs/configuration.md``. Durations are seconds unless the name says
otherwise; sizes are bytes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

from coven.values import InstallationId, RepoId, RepoName, Severity


class Section(BaseModel):
    """Base of all sections: closed and immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


Seconds = Annotated[int, Field(ge=1, le=86_400)]
Publish = Literal["check_run", "advisory_comment", "review", "request_changes"]
External = Literal["off", "ask", "on"]


class Server(Section):
    bind: str = "127.0.0.1:8080"
    public_url: str | None = None
    """Where people reach this server."""
    flower_url: str | None = None
    """Where the dashboard links to for the Celery view."""
    cave_base_url: str | None = None
    """Base of session links; ``<base>/sessions/<task id>``."""
    state_dir: Path = Path("var/coven-github")
    deployment: Literal["self_hosted", "hosted"] = "self_hosted"
    secret_key: SecretStr | None = None
    """Signs comment markers and cookies; generated into the state dir when absent."""
    web_workers: int = Field(default=2, ge=1, le=64)
    web_threads: int = Field(default=8, ge=1, le=256)


class GitHub(Section):
    app_id: int = Field(default=0, ge=0)
    client_id: str | None = None
    client_secret: SecretStr | None = None
    private_key: SecretStr | None = None
    """PEM text; also with literal ``\\n``, quotes, CRLF or base64."""
    private_key_path: Path | None = None
    webhook_secret: SecretStr | None = None
    webhook_secrets: tuple[SecretStr, ...] = ()
    """Active secrets for rotation; any of them verifies a delivery."""
    marketplace_webhook_secret: SecretStr | None = None
    api_base_url: str = "https://api.github.com"
    html_base_url: str = "https://github.com"
    api_version: str = "2022-11-28"
    timeout_secs: float = Field(default=15.0, gt=0, le=60)
    """Time-out of one HTTP call."""
    lookup_budget_secs: float = Field(default=0.75, gt=0, le=8)
    """All the receiver may spend on GitHub for one delivery, token included."""

    @field_validator("api_base_url", "html_base_url")
    @classmethod
    def _plain_base(cls, value: str) -> str:
        parts = urlsplit(value.strip())
        local = parts.hostname in {"127.0.0.1", "localhost", "::1"}
        if parts.scheme != "https" and not (parts.scheme == "http" and local):
            raise ValueError("must be an https:// URL (http:// only for this machine)")
        if not parts.hostname or parts.username or parts.password or parts.query or parts.fragment:
            raise ValueError("must be a base URL without credentials, query or fragment")
        return value.strip().rstrip("/")

    def active_webhook_secrets(self) -> tuple[bytes, ...]:
        """Every secret that verifies a delivery, as bytes; empty ones never count."""
        listed = [*self.webhook_secrets]
        if self.webhook_secret is not None:
            listed.insert(0, self.webhook_secret)
        return tuple(s.get_secret_value().encode() for s in listed if s.get_secret_value().strip())


class Container(Section):
    image: str = "ghcr.io/opencoven/coven-code:latest"
    docker_bin: str = "docker"
    coven_code_bin: str = "coven-code"
    cpus: float = Field(default=1.0, gt=0, le=256)
    memory: str = Field(default="2g", pattern=r"^\d+[bkmg]$")
    pids: int = Field(default=512, ge=16, le=65_536)
    tmpfs_size: str = Field(default="256m", pattern=r"^\d+[bkmg]$")
    network: str = "bridge"


class Worker(Section):
    concurrency: int = Field(default=1, ge=1, le=256)
    coven_code_bin: str = "coven-code"
    workspace_root: Path | None = None
    """Where checkouts live; ``<state_dir>/workspaces`` when absent."""
    timeout_secs: Seconds = 600
    """Deadline of one attempt, enforced on the whole process tree."""
    grace_secs: float = Field(default=10.0, ge=0, le=120)
    """Between SIGTERM and SIGKILL."""
    max_retries: int = Field(default=2, ge=0, le=10)
    """Attempts = 1 + max_retries."""
    retry_base_secs: float = Field(default=4.0, gt=0, le=600)
    retry_cap_secs: float = Field(default=300.0, gt=0, le=3_600)
    lease_secs: int = Field(default=90, ge=5, le=600)
    heartbeat_secs: float = Field(default=20.0, gt=0, le=120)
    check_heartbeat_secs: float = Field(default=30.0, ge=1, le=3_600)
    """How often the Check Run of a running session says how long it has been at it."""
    drain_secs: int = Field(default=30, ge=0, le=3_600)
    profile: Literal["contract-v2", "coven-code"] = "coven-code"
    backend: Literal["host", "bubblewrap", "container"] = "bubblewrap"
    allow_host_backend: bool = False
    env_allow: tuple[str, ...] = ()
    """Names of variables (provider keys) that are handed to the runtime."""
    max_turns: int = Field(default=60, ge=1, le=1_000)
    memory_bytes: int = Field(default=4 * 2**30, ge=64 * 2**20)
    """Resident memory of a session, all its processes together."""
    file_bytes: int = Field(default=2**30, ge=2**20)
    """Largest single file a session may write."""
    processes: int = Field(default=512, ge=16, le=65_536)
    workspace_bytes: int = Field(default=8 * 2**30, ge=16 * 2**20)
    """Largest checkout, session output included."""
    network: bool = True
    """Whether a bubblewrap session has the network."""
    readable: tuple[Path, ...] = ()
    """Further folders that a bubblewrap session may read: toolchains and runtimes outside /usr."""
    container: Container = Container()


class Familiar(Section):
    id: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,38}$")
    display_name: str = Field(min_length=1, max_length=60)
    bot_username: str = Field(min_length=1, max_length=100)
    """Login of the App's bot, such as ``cody-familiar[bot]``."""
    model: str | None = None
    skills: tuple[str, ...] = ()
    trigger_labels: tuple[str, ...] = ()

    @property
    def handle(self) -> str:
        """What people write after ``@``."""
        return self.bot_username.removesuffix("[bot]")


class ReviewOverride(Section):
    familiar: str | None = None
    pull_request: bool | None = None
    include_drafts: bool | None = None
    audit_instruction: str | None = None
    min_severity: Severity | None = None
    publish: Publish | None = None
    external: External | None = None
    fail_on: Severity | Literal["none"] | None = None


class ReviewPolicy(Section):
    familiar: str | None = None
    pull_request: bool = False
    """Whether pull requests are reviewed without being asked."""
    include_drafts: bool = False
    audit_instruction: str | None = None
    min_severity: Severity = Severity.INFO
    publish: Publish = "check_run"
    external: External = "ask"
    """Automatic review of outsiders' and forks' pull requests."""
    fail_on: Severity | Literal["none"] = "none"


class Review(ReviewPolicy):
    repos: dict[str, ReviewOverride] = {}

    def for_repo(self, name: RepoName) -> ReviewPolicy:
        """The policy of one repository: its overrides on top of the general ones."""
        base = self.model_dump(exclude={"repos"})
        for key, override in self.repos.items():
            if key.casefold() == name.key:
                base.update(override.model_dump(exclude_none=True))
        return ReviewPolicy(**base)


class Checks(Section):
    on_start_commit: bool = True
    """Conclude issue work that pushed nothing on the commit it started from."""


class Commands(Section):
    alias: str = Field(
        default="familiar", pattern=r"^[A-Za-z0-9](?:[A-Za-z0-9-]{0,37}[A-Za-z0-9])?$"
    )
    in_issues: bool = False
    """Whether the text of an issue may give commands when it is opened."""
    bots: tuple[Annotated[int, Field(ge=1)], ...] = ()
    """User ids of bots that may give commands, as somebody with write access."""


class Queue(Section):
    broker_url: SecretStr | None = None
    """Redis URL; absent means the embedded server."""
    wake_budget_secs: float = Field(default=0.25, gt=0, le=5)


class Storage(Section):
    database_url: SecretStr | None = None
    """``postgresql+psycopg://…``; absent means SQLite in the state dir."""
    path: Path | None = None
    """SQLite file; ``<state_dir>/coven.db`` when absent."""
    task_retention_days: int | None = Field(default=None, ge=1, le=3_650)
    delivery_body_days: int = Field(default=7, ge=1, le=365)
    api_audit_days: int = Field(default=90, ge=1, le=3_650)


class MemoryOverride(Section):
    enabled: bool | None = None
    approval_required: bool | None = None


class Memory(Section):
    enabled: bool = False
    approval_required: bool = True
    retention_days: int | None = Field(default=365, ge=1, le=3_650)
    self_hosted: bool = False
    """Use memory on a self-hosted single-tenant server too."""
    four_eyes: bool = False
    """An author can't approve what was learnt from their own change."""
    repos: dict[str, MemoryOverride] = {}


class GardenerOverride(Section):
    enabled: bool | None = None
    autonomy: Literal["propose", "prune-dead"] | None = None
    schedule: str | None = None
    exclude: tuple[str, ...] | None = None


class Gardener(Section):
    enabled: bool = False
    autonomy: Literal["propose", "prune-dead"] = "propose"
    schedule: str = "0 4 * * *"
    exclude: tuple[str, ...] = ()
    draft_pr_label: str | None = None
    repos: dict[str, GardenerOverride] = {}


class ApiTenant(Section):
    token: SecretStr
    installation_id: int = Field(ge=1)
    repos: tuple[str, ...] = ()


class Api(Section):
    mode: Literal["open", "token"] = "token"
    service_token: SecretStr | None = None
    tenants: tuple[ApiTenant, ...] = ()


class Triggers(Section):
    assignment: bool = True
    labels: bool = True
    commands: bool = True
    reviews: bool = True


class Limits(Section):
    """What one installation may use. Absent: by the account's plan, else without a limit."""

    max_concurrent: int | None = Field(default=None, ge=1)
    """Sessions at a time."""
    max_concurrent_per_repo: int | None = Field(default=None, ge=1)
    max_tasks_per_day: int | None = Field(default=None, ge=1)
    """Sessions begun per day, by UTC."""
    max_minutes_per_month: int | None = Field(default=None, ge=1)
    """Minutes of sessions per calendar month, by UTC."""
    weight: int | None = Field(default=None, ge=1, le=100)
    """Share of the workers when several installations wait; 1 when absent."""
    when_over: Literal["wait", "end"] | None = None
    """What becomes of work over a limit: it waits for the reset, or ends; ``wait`` when absent."""


class RepoTriggers(Section):
    enabled: bool | None = None
    familiars: tuple[str, ...] | None = None
    """Who serves this repository, of those that serve the installation."""
    assignment: bool | None = None
    labels: bool | None = None
    commands: bool | None = None
    reviews: bool | None = None


class Installation(Section):
    id: int = Field(ge=1)
    account: str | None = None
    familiars: tuple[str, ...] = ()
    triggers: Triggers = Triggers()
    limits: Limits = Limits()
    repos: dict[str, RepoTriggers] = {}


class Billing(Section):
    require_plan: bool = False


class Governance(Section):
    enabled: bool = False
    """Whether the agent-action rules are asked before every effect."""
    mode: Literal["off", "unsigned-dev", "signed"] = "signed"
    """``signed``: only rules that the operator signed; ``unsigned-dev``: as they stand."""
    key_dir: Path | None = None
    """Folder of the operator's and the service's keys; ``<state_dir>/keys`` when absent."""
    four_eyes: bool = False
    """Whoever gave the command can't approve what it escalates to."""
    payload_days: int | None = Field(default=None, ge=1, le=3_650)
    """Days after which the record forgets what an action was; its hash stays. None: never."""
    strict_conclusion: bool = False
    """A session that was refused something ends ``neutral`` instead of ``success``."""
    model_hosts: tuple[str, ...] = ()
    """Hosts of the model's API, for rules that name ``${model_hosts}``."""
    default_network_request: Literal["allow", "refuse"] = "allow"
    """What happens to a request that no rule is about."""

    @property
    def active(self) -> bool:
        """Whether a gate stands before the effects."""
        return self.enabled and self.mode != "off"


class Logging(Section):
    format: Literal["json", "pretty"] = "json"
    level: Literal["debug", "info", "warning", "error"] = "info"


class Metrics(Section):
    """Who may read ``GET /metrics``."""

    token: SecretStr | None = None
    """When set, everybody has to send it as a bearer token."""
    allow: tuple[str, ...] = ("127.0.0.0/8", "::1/128")
    """Without a token: networks that may ask directly. What came through a proxy never may."""


class Settings(Section):
    """The whole configuration."""

    server: Server = Server()
    github: GitHub = GitHub()
    worker: Worker = Worker()
    familiars: tuple[Familiar, ...] = ()
    review: Review = Review()
    checks: Checks = Checks()
    commands: Commands = Commands()
    queue: Queue = Queue()
    storage: Storage = Storage()
    memory: Memory = Memory()
    gardener: Gardener = Gardener()
    api: Api = Api()
    limits: Limits = Limits()
    installations: tuple[Installation, ...] = ()
    billing: Billing = Billing()
    governance: Governance = Governance()
    logging: Logging = Logging()
    metrics: Metrics = Metrics()

    @property
    def workspace_root(self) -> Path:
        """Absolute folder of all checkouts."""
        return (self.worker.workspace_root or self.server.state_dir / "workspaces").absolute()

    @property
    def mirror_root(self) -> Path:
        """Absolute folder of the per-installation mirror caches."""
        return (self.server.state_dir / "mirrors").absolute()

    @property
    def database_url(self) -> str:
        """SQLAlchemy URL of the ledgers."""
        if self.storage.database_url is not None:
            return self.storage.database_url.get_secret_value()
        path = (self.storage.path or self.server.state_dir / "coven.db").absolute()
        return f"sqlite:///{path}"

    def familiar(self, familiar_id: str) -> Familiar | None:
        """The familiar with this id."""
        return next((f for f in self.familiars if f.id == familiar_id), None)

    def installation(self, installation_id: InstallationId) -> Installation | None:
        """The configured block of one installation."""
        return next((i for i in self.installations if i.id == installation_id), None)

    def scope_for(
        self, installation_id: InstallationId, repo: RepoName, repo_id: RepoId | None = None
    ) -> Scope:
        """Which familiars and lanes serve a repository.

        An ``[[installations]]`` block overrides for its own installation and for no other one. A
        key of ``repos`` is a name or, to survive renames, the numeric id.
        """
        block = self.installation(installation_id)
        if block is None:
            return Scope(familiars=self.familiars, triggers=Triggers(), listed=False)
        chosen = tuple(f for f in self.familiars if not block.familiars or f.id in block.familiars)
        lanes = block.triggers.model_dump()
        for key, override in block.repos.items():
            if key.casefold() != repo.key and key != str(repo_id):
                continue
            named = override.model_dump(exclude={"enabled", "familiars"}, exclude_none=True)
            lanes.update(named)
            if override.familiars is not None:
                chosen = tuple(f for f in chosen if f.id in override.familiars)
            if override.enabled is False:
                lanes = dict.fromkeys(lanes, False)
        return Scope(familiars=chosen, triggers=Triggers(**lanes), listed=True)


class Scope(Section):
    """What serves one repository of one installation."""

    familiars: tuple[Familiar, ...]
    triggers: Triggers
    listed: bool
