"""The one table of what the API can do. Routes, checks and the OpenAPI document come from it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel

from coven.api_tokens import TokenScope
from webhooks.api import (
    governance,
    governance_shapes,
    handlers,
    inputs,
    memory,
    memory_shapes,
    shapes,
)
from webhooks.api.context import Call, Lines, Outcome

PREFIX = "/api/github"

Handler = Callable[[Call[Any, Any]], Outcome | Lines]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of one path. ``path`` is below the prefix, with ``{names}``."""

    method: Literal["GET", "POST", "PATCH", "DELETE"]
    path: str
    name: str
    group: str
    handler: Handler
    answer: type[BaseModel] | None
    """None: JSON lines of ``lines``."""
    scope: TokenScope = TokenScope.READ
    query: type[BaseModel] = inputs.Query
    body: type[BaseModel] | None = None
    lines: type[BaseModel] | None = None
    problems: tuple[int, ...] = field(default=())
    """What it may refuse beside what every operation may."""
    commits: bool = False
    """Whether the handler commits by itself, because the signed record needs its own commit."""
    signed: bool = False
    """Whether the operator's signature opens it, and no token does."""

    @property
    def summary(self) -> str:
        """First sentence of the handler's documentation."""
        return (self.handler.__doc__ or "").strip().splitlines()[0].rstrip(".")

    @property
    def parameters(self) -> list[str]:
        """Names in the path."""
        return re.findall(r"\{(\w+)\}", self.path)

    @property
    def writes(self) -> bool:
        """Whether it changes anything."""
        return self.method != "GET"


_TASKS_AND_RECORDS: tuple[Operation, ...] = (
    Operation(
        method="GET",
        path="/tasks",
        name="list_tasks",
        group="Tasks",
        handler=handlers.list_tasks,
        query=inputs.TasksQuery,
        answer=shapes.TasksAnswer,
    ),
    Operation(
        method="GET",
        path="/tasks/{task_id}",
        name="show_task",
        group="Tasks",
        handler=handlers.show_task,
        query=inputs.Scoped,
        answer=shapes.TaskAnswer,
        problems=(404,),
    ),
    Operation(
        method="POST",
        path="/tasks/{task_id}/cancel",
        name="cancel_task",
        group="Tasks",
        handler=handlers.cancel_task,
        scope=TokenScope.ADMIN,
        query=inputs.Scoped,
        body=inputs.CancelBody,
        answer=shapes.CancelAnswer,
        problems=(404, 409),
    ),
    Operation(
        method="POST",
        path="/tasks/{task_id}/retry",
        name="retry_task",
        group="Tasks",
        handler=handlers.retry_task,
        scope=TokenScope.ADMIN,
        query=inputs.Scoped,
        body=inputs.NoBody,
        answer=shapes.RetryAnswer,
        problems=(404, 409),
    ),
    Operation(
        method="GET",
        path="/deliveries",
        name="list_deliveries",
        group="Deliveries",
        handler=handlers.list_deliveries,
        query=inputs.DeliveriesQuery,
        answer=shapes.DeliveriesAnswer,
    ),
    Operation(
        method="GET",
        path="/deliveries/{delivery_id}",
        name="show_delivery",
        group="Deliveries",
        handler=handlers.show_delivery,
        query=inputs.Scoped,
        answer=shapes.DeliveryAnswer,
        problems=(404,),
    ),
    Operation(
        method="GET",
        path="/routing",
        name="routing",
        group="Deliveries",
        handler=handlers.routing,
        query=inputs.RoutingQuery,
        answer=shapes.RoutingAnswer,
    ),
    Operation(
        method="GET",
        path="/usage",
        name="usage",
        group="Records",
        handler=handlers.usage,
        query=inputs.UsageQuery,
        answer=shapes.UsageAnswer,
    ),
    Operation(
        method="GET",
        path="/audit",
        name="audit",
        group="Records",
        handler=handlers.audit,
        query=inputs.AuditQuery,
        answer=shapes.AuditAnswer,
    ),
    Operation(
        method="GET",
        path="/whoami",
        name="whoami",
        group="Server",
        handler=handlers.whoami,
        answer=shapes.WhoamiAnswer,
    ),
    Operation(
        method="GET",
        path="/capabilities",
        name="capabilities",
        group="Server",
        handler=handlers.capabilities,
        answer=shapes.CapabilitiesAnswer,
    ),
)

_MEMORY: tuple[Operation, ...] = (
    Operation(
        method="GET",
        path="/memory",
        name="list_memory",
        group="Memory",
        handler=memory.list_memory,
        query=memory_shapes.MemoryQuery,
        answer=memory_shapes.MemoryAnswer,
    ),
    Operation(
        method="GET",
        path="/memory/activity",
        name="list_activity",
        group="Memory",
        handler=memory.list_activity,
        query=memory_shapes.ActivityQuery,
        answer=memory_shapes.ActivityAnswer,
    ),
    Operation(
        method="GET",
        path="/memory/export",
        name="export_memory",
        group="Memory",
        handler=memory.export_memory,
        query=memory_shapes.ExportQuery,
        answer=None,
        lines=memory_shapes.ExportLine,
    ),
    Operation(
        method="GET",
        path="/memory/{entry_id}",
        name="show_memory",
        group="Memory",
        handler=memory.show_memory,
        query=inputs.Scoped,
        answer=memory_shapes.EntryAnswer,
        problems=(404,),
    ),
    Operation(
        method="POST",
        path="/memory/revoke",
        name="revoke_memory",
        group="Memory",
        handler=memory.revoke_memory,
        answer=memory_shapes.RevokeAnswer,
        scope=TokenScope.MEMORY_WRITE,
        body=memory_shapes.RevokeBody,
        problems=(404, 409),
    ),
    Operation(
        method="POST",
        path="/memory/{entry_id}/approve",
        name="approve_memory",
        group="Memory",
        handler=memory.approve_memory,
        query=inputs.Scoped,
        answer=memory_shapes.DecideAnswer,
        scope=TokenScope.MEMORY_WRITE,
        body=memory_shapes.DecideBody,
        problems=(404, 409),
    ),
    Operation(
        method="POST",
        path="/memory/{entry_id}/deny",
        name="deny_memory",
        group="Memory",
        handler=memory.deny_memory,
        query=inputs.Scoped,
        answer=memory_shapes.DecideAnswer,
        scope=TokenScope.MEMORY_WRITE,
        body=memory_shapes.DecideBody,
        problems=(404, 409),
    ),
    Operation(
        method="POST",
        path="/memory/{entry_id}/share",
        name="share_memory",
        group="Memory",
        handler=memory.share_memory,
        query=inputs.Scoped,
        answer=memory_shapes.DecideAnswer,
        scope=TokenScope.ADMIN,
        body=memory_shapes.DecideBody,
        problems=(404, 409),
    ),
    Operation(
        method="POST",
        path="/memory/{entry_id}/unshare",
        name="unshare_memory",
        group="Memory",
        handler=memory.unshare_memory,
        query=inputs.Scoped,
        answer=memory_shapes.RevokeAnswer,
        scope=TokenScope.ADMIN,
        body=memory_shapes.UnshareBody,
        problems=(404, 409),
    ),
)

_GOVERNANCE: tuple[Operation, ...] = (
    Operation(
        method="GET",
        path="/governance/rules",
        name="list_rules",
        group="Governance",
        handler=governance.list_rules,
        query=governance_shapes.RulesQuery,
        answer=governance_shapes.RulesAnswer,
    ),
    Operation(
        method="GET",
        path="/governance/rules/{rule_id}",
        name="show_rule",
        group="Governance",
        handler=governance.show_rule,
        answer=governance_shapes.RuleAnswer,
        problems=(404,),
    ),
    Operation(
        method="POST",
        path="/governance/rules",
        name="add_rule",
        group="Governance",
        handler=governance.add_rule,
        body=governance_shapes.ChangeBody,
        answer=governance_shapes.RuleAnswer,
        scope=TokenScope.ADMIN,
        problems=(404, 409, 422),
        commits=True,
        signed=True,
    ),
    Operation(
        method="PATCH",
        path="/governance/rules/{rule_id}",
        name="change_rule",
        group="Governance",
        handler=governance.change_rule,
        body=governance_shapes.ChangeBody,
        answer=governance_shapes.RuleAnswer,
        scope=TokenScope.ADMIN,
        problems=(404, 409, 422),
        commits=True,
        signed=True,
    ),
    Operation(
        method="DELETE",
        path="/governance/rules/{rule_id}",
        name="remove_rule",
        group="Governance",
        handler=governance.remove_rule,
        body=governance_shapes.ChangeBody,
        answer=governance_shapes.RuleAnswer,
        scope=TokenScope.ADMIN,
        problems=(404, 409, 422),
        commits=True,
        signed=True,
    ),
    Operation(
        method="POST",
        path="/governance/check",
        name="check_action",
        group="Governance",
        handler=governance.check_action,
        body=governance_shapes.CheckBody,
        answer=governance_shapes.CheckAnswer,
        problems=(404, 409),
        commits=True,
    ),
    Operation(
        method="GET",
        path="/governance/escalations",
        name="list_escalations",
        group="Governance",
        handler=governance.list_escalations,
        query=governance_shapes.EscalationsQuery,
        answer=governance_shapes.EscalationsAnswer,
    ),
    Operation(
        method="POST",
        path="/governance/escalations/{escalation_id}/decision",
        name="decide_escalation",
        group="Governance",
        handler=governance.decide,
        body=governance_shapes.DecisionBody,
        answer=governance_shapes.EscalationAnswer,
        scope=TokenScope.ADMIN,
        problems=(404, 409),
        commits=True,
        signed=True,
    ),
    Operation(
        method="GET",
        path="/governance/audit",
        name="governance_audit",
        group="Governance",
        handler=governance.audit,
        query=governance_shapes.GovernanceAuditQuery,
        answer=governance_shapes.GovernanceAuditAnswer,
    ),
)

OPERATIONS: tuple[Operation, ...] = (*_TASKS_AND_RECORDS, *_MEMORY, *_GOVERNANCE)
"""Everything under the prefix but the document itself. Other rooms' tables are added here."""
