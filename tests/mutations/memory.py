# ruff: noqa: E501 - lines of source are quoted whole
"""Every rule of memory, taken out one at a time. Each must break a case of the corpus."""

from __future__ import annotations

from tests.mutations.runner import Mutation

KEYS, POLICY = "coven.memory.keys", "coven.memory.policy"
VALIDATION, SUPPLY = "coven.memory.validation", "coven.memory.supply"
PII, DENIED, MODEL = "coven.memory.pii", "coven.memory.denied", "coven.memory.book"
BOOK, READS = "coven.store.book", "coven.store.book_reads"
REVOKE, PLACES = "coven.store.book_revocations", "coven.store.book_places"
ROWS, ACTIVITY = "coven.store.book_rows", "coven.store.book_activity"
SWEEPS, RETENTION = "coven.store.book_sweeps", "coven.store.book_retention"


def _of(module: str, breaks: str, *rules: tuple[str, str, str]) -> list[Mutation]:
    return [Mutation(rule, module, old, new, breaks) for rule, old, new in rules]


MUTATIONS: tuple[Mutation, ...] = (
    Mutation(
        "empty segment",
        KEYS,
        "if not segment:",
        "if False:",
        "keys",
        also=((r"{}~]+\Z", r"{}~]*\Z"),),
    ),
    Mutation(
        "only what is over",
        SWEEPS,
        "e.state.in_(_OPEN), e.expires_at <= now).order_by",
        "e.state.in_(_OPEN)).order_by",
        "book",
        also=(("e.state.in_(_OPEN), e.expires_at <= now)\n", "e.state.in_(_OPEN))\n"),),
    ),
    *_of(
        KEYS,
        "keys",
        ("length", "if len(text) > MAX_CHARS:", "if False:"),
        ("alphabet", "if not _SEGMENT.match(segment):", "if False:"),
        ("end of the segment", r"{}~]+\Z", r"{}~]+"),
        ("trailing dot", 'if segment.endswith("."):', "if False:"),
        ("namespace and key", "if len(rest) < 2:", "if len(rest) < 1:"),
        ("installation is a number", "if not _INSTALLATION.match(rest[0]):", "if False:"),
        ("no leading zero", "[1-9][0-9]{0,17}", "[0-9]{1,18}"),
        ("owner's case", 'return f"repo/{self.repo.key}"', 'return f"repo/{self.repo}"'),
        (
            "owner is a login",
            "Owner(repo=RepoName(rest[0], rest[1]))",
            "Owner(repo=RepoName('o', rest[1]))",
        ),
        ("percent", "[A-Za-z0-9!$&", "[A-Za-z0-9%!$&"),
        ("backslash", "[A-Za-z0-9!$&", r"[A-Za-z0-9\\!$&"),
        ("space", "[A-Za-z0-9!$&", "[A-Za-z0-9 !$&"),
        ("star", "[A-Za-z0-9!$&", "[A-Za-z0-9*!$&"),
        ("brackets", "[A-Za-z0-9!$&", r"[A-Za-z0-9\[\]!$&"),
        ("query", "[A-Za-z0-9!$&", "[A-Za-z0-9?!$&"),
        ("fragment", "[A-Za-z0-9!$&", "[A-Za-z0-9#!$&"),
        ("quotes", "[A-Za-z0-9!$&", r"[A-Za-z0-9\x22\x27!$&"),
        ("only ASCII letters", "[A-Za-z0-9!$&", r"[\w!$&"),
    ),
    *_of(
        KEYS,
        "prefixes",
        ("owner of a prefix", "return self.owner == key.owner and parts", "return parts"),
        (
            "whole segments",
            "parts[: len(self.below)] == self.below",
            '"/".join(parts).startswith("/".join(self.below))',
        ),
        ("star and slash at the end", 'for ending in ("/*", "/"):', "for ending in ():"),
        ("not broader than a repository", "len(rest) >= 2", "len(rest) >= 1"),
        ("not broader than an installation", 'head == "tenant" and rest', 'head == "tenant"'),
    ),
    *_of(
        DENIED,
        "folding",
        ("covered ones", "if not any(each in kept for each in above):", "if True:"),
        ("bound", "while len(kept) > most:", "while False:"),
        ("fullest first", "(parents[prefix], len(prefix.below), str(prefix))", "-parents[prefix]"),
    ),
    *_of(
        PII,
        "personal",
        ("mail", 'yield "email"', "pass"),
        ("account", 'yield "iban"', "pass"),
        ("card", 'yield "card"', "pass"),
        ("phone", 'yield "phone"', "pass"),
        ("what hides a split", "for view in readings(text):", "for view in [View(text)]:"),
        ("nobody's addresses", "local in _NOBODY", "False"),
        ("private addresses", "host == _NO_REPLY_HOST", "False"),
        ("check of an account", "% 97 == 1", "% 97 >= 0"),
        ("check of a card", "return total % 10 == 0", "return True"),
    ),
    *_of(
        POLICY,
        "grants",
        ("switched on", "if not memory_enabled(settings, facts.repo):", "if False:"),
        ("hosted or wanted", "if settings.server.deployment != ", "if False and '' != "),
        ("stricter spelling", "return all(said) if said", "return any(said) if said"),
        (
            "override",
            "if said else settings.memory.enabled",
            "if False else settings.memory.enabled",
        ),
        (
            "case of an override",
            "key.casefold() == repo.key]\n    said = [enabled",
            "key == repo.key]\n    said = [enabled",
        ),
        ("missing facts", "    if missing:\n", "    if False:\n"),
        (
            "unreadable revocations",
            "if why is not None or denied is None:",
            "denied = denied or ()\n    if why is not None and 'could not be read' not in why:",
        ),
        (
            "unclear revocations",
            "        try:\n            KeyPrefix.parse(entry)\n        except ValueError:",
            "        try:\n            pass\n        except ValueError:",
        ),
        ("revocations are sent", "denied=tuple(denied),", "denied=(),"),
        (
            "a head elsewhere is a fork",
            "trust = facts.trust if facts.same_repo else TrustScope.FORK_PR",
            "trust = facts.trust",
        ),
        (
            "a head elsewhere writes nothing",
            "    if not facts.same_repo:\n        return TrustScope.FORK_PR\n",
            "",
        ),
        (
            "lower of actor and author",
            "return min(facts.trust, facts.content_trust, key=_LOW_TO_HIGH.index)",
            "return facts.trust",
        ),
        (
            "actor counts too",
            "return min(facts.trust, facts.content_trust, key=_LOW_TO_HIGH.index)",
            "return facts.content_trust",
        ),
        (
            "an outsider reads nothing",
            "TrustScope.EXTERNAL: (),",
            'TrustScope.EXTERNAL: ("repo",),',
        ),
        (
            "a collaborator reads no tenant memory",
            'TrustScope.COLLABORATOR: ("repo",),',
            'TrustScope.COLLABORATOR: ("repo", "tenant_shared"),',
        ),
        (
            "a fork reads no tenant memory",
            'TrustScope.FORK_PR: ("repo",),',
            'TrustScope.FORK_PR: ("repo", "tenant_shared"),',
        ),
        (
            "a collaborator writes nothing",
            "_WRITES: dict[TrustScope, tuple[Namespace, ...]] = {",
            '_WRITES: dict[TrustScope, tuple[Namespace, ...]] = {\n    TrustScope.COLLABORATOR: ("repo",),',
        ),
        (
            "the tenant is not written",
            'TrustScope.MAINTAINER: ("repo",),',
            'TrustScope.MAINTAINER: ("repo", "tenant_shared"),',
        ),
        (
            "approval of the untrusted",
            "approval_required=writer not in _WRITES or ",
            "approval_required=",
        ),
        (
            "approval by a repository",
            "return any(said) if said else memory.approval_required",
            "return memory.approval_required",
        ),
        (
            "stricter spelling of approval",
            "return any(said) if said else",
            "return all(said) if said else",
        ),
    ),
    *_of(
        VALIDATION,
        "reports",
        ("report says disabled", "and report.enabled and denied", "and denied"),
        (
            "unreadable revocations",
            "and report.enabled and denied is not None:",
            "and report.enabled:\n            denied = denied or ()",
        ),
        (
            "unclear revocations",
            "            return  # What is revoked is not understood, so everything may be.",
            "            prefixes = ()",
        ),
        ("revocations of the policy", "(*(policy.denied or ()), *denied)", "denied"),
        ("revocations since", "(*(policy.denied or ()), *denied)", "policy.denied or ()"),
        (
            "read scopes",
            "elif reason is None and read.scope not in policy.read_scopes:",
            "elif False:",
        ),
        ("alarm", "alarm=reason is not None and reason is not Reason.PII,", "alarm=False,"),
        ("no name in a citation", "reason is not Reason.PII,\n", "True,\n"),
        ("outsiders teach nothing", "elif self._writer in _NEVER_WRITE:", "elif False:"),
        ("secret in a text", "elif proposal.summary in self._secret:", "elif False:"),
        ("secret in a key", "if text in self._secret:", "if False:"),
        (
            "write scopes and approval",
            "            reason = self._may_write(self._policy, proposal)",
            "            reason = None",
        ),
        (
            "approval",
            "return Reason.APPROVAL_REQUIRED if policy.approval_required and not pending else None",
            "return None",
        ),
        (
            "a collaborator applies nothing",
            "return None if pending else Reason.APPROVAL_REQUIRED",
            "return None",
        ),
        (
            "a collaborator may propose",
            "if self._writer is TrustScope.COLLABORATOR and",
            "if False and",
        ),
        ("a collaborator's proposal is of the repository", ' and proposal.scope == "repo":', ":"),
        (
            "personal data in a text",
            "(found := personal_data(proposal.summary))",
            "(found := None)",
        ),
        ("says nothing", "not proposal.summary.strip()", "False"),
        ("too long", "len(proposal.summary) > SUMMARY_CHARS", "False"),
        (
            "masked before",
            "if MASK in text or redactor.has_secret(text):",
            "if redactor.has_secret(text):",
        ),
        (
            "only what the book has",
            "entry=entry.id if entry is not None and reason is None else None",
            "entry=read.id",
        ),
        (
            "nothing refused is cited",
            "entry is not None and reason is None else",
            "entry is not None else",
        ),
        (
            "an id stands for its key",
            "entry.key if entry else read.id, read.scope",
            "read.id, read.scope",
        ),
    ),
    *_of(
        SUPPLY,
        "supply",
        ("usable", "if entry.usable(now)\n", "if True\n"),
        ("read scopes", "and entry.scope in policy.read_scopes", ""),
        ("of this tenant and repository", "and _is_of(entry, policy)", ""),
        (
            "of this tenant",
            "if entry.installation_id != policy.tenant_scope.installation_id:",
            "if False:",
        ),
        (
            "of this repository",
            "return entry.repo_id is None or entry.repo_id == policy.repo_scope.repo_id",
            "return True",
        ),
        (
            "revoked",
            "and not any(prefix.covers(MemoryKey.parse(entry.key)) for prefix in denied)",
            "",
        ),
        ("secrets", "and clean(entry.summary) == entry.summary", ""),
        ("budget", "if size <= room:", "if True:"),
        ("repository first", "entry.repo_id is None,\n", "True,\n"),
        ("newest", "min(by_age[entry.id], by_use[entry.id]),", "by_use[entry.id],"),
        ("most cited", "min(by_age[entry.id], by_use[entry.id]),", "by_age[entry.id],"),
        ("indented", 'f"  {line}" for line', 'f"{line}" for line'),
        (
            "every kind of line",
            "shown(entry.summary).splitlines()",
            'shown(entry.summary).split("\\n")',
        ),
        ("what hides", "in shown(entry.summary)", "in entry.summary"),
    ),
    *_of(
        MODEL,
        "supply",
        ("only approved ones", "self.state is EntryState.APPROVED and not", "not"),
        (
            "not the old",
            "is EntryState.APPROVED and not expired(self.expires_at, now)",
            "is EntryState.APPROVED",
        ),
    ),
    *_of(
        MODEL,
        "book",
        ("hash has the text", "[place, scope, summary]", "[place, scope]"),
        (
            "four eyes",
            "return entry.author_id is not None and by.id != entry.author_id",
            "return True",
        ),
        ("unknown author", "entry.author_id is not None and by.id", "by.id"),
        ("refusing is free", "if not approve or not four_eyes", "if not four_eyes"),
        ("one eye by default", "if not approve or not four_eyes or", "if not approve or"),
        ("the last second", "expires_at <= now", "expires_at < now"),
    ),
    *_of(
        BOOK,
        "book",
        ("outsiders", "    if new.trust in _NEVER:\n        return Refusal.UNTRUSTED\n", ""),
        ("only maintainers remember", "if new.trust is not TrustScope.MAINTAINER:", "if False:"),
        ("key of the repository", "if own.repo != new.repo or", "if"),
        (
            "key of the tenant",
            "if own.repo is None and own.installation_id != installation:",
            "if False:",
        ),
        ("empty", "if not summary.strip():", "if False:"),
        ("too long", "if len(summary) > SUMMARY_CHARS:", "if False:"),
        (
            "revoked place",
            "    if is_revoked(installation, tx, new.repo_id, place_of(new.key)):\n        return Refusal.REVOKED_KEY\n",
            "",
        ),
        (
            "too many",
            "if new.task_id is not None and _too_many(installation, tx, new):",
            "if False:",
        ),
        (
            "rejected stays rejected",
            "(EntryState.PENDING, EntryState.REJECTED)",
            "(EntryState.PENDING,)",
        ),
        (
            "same text is one entry",
            "(EntryState.PENDING, EntryState.REJECTED)",
            "(EntryState.REJECTED,)",
        ),
        (
            "approved only when allowed",
            "EntryState.APPROVED if approved else EntryState.PENDING",
            "EntryState.APPROVED",
        ),
        (
            "narrowed to a repository",
            "(repo_id is not None and found.repo_id not in (None, repo_id))",
            "False",
        ),
        (
            "replaced text",
            "    if found.replaced_by is not None:\n        return Refusal.TEXT_CHANGED\n",
            "",
        ),
        (
            "hash that was shown",
            "    if found.text_hash != shown_hash:\n        return Refusal.TEXT_CHANGED\n",
            "",
        ),
        (
            "only what waits",
            "    if found.state is not EntryState.PENDING:\n        return Refusal.NOT_PENDING\n",
            "",
        ),
        ("too old", "    if expired(found.expires_at, now):\n        return Refusal.EXPIRED\n", ""),
        (
            "own change",
            "    if not may_decide(found, by, approve=approve, four_eyes=four_eyes):\n        return Refusal.OWN_CHANGE\n",
            "",
        ),
        (
            "time begins anew",
            'values["expires_at"] = now + keep if keep is not None else None',
            "pass",
        ),
        (
            "successor in use",
            "installation, tx, found.repo_id, found.place, EntryState.APPROVED, found.id, now",
            "installation, tx, found.repo_id, 'x', EntryState.APPROVED, found.id, now",
        ),
        (
            "successor that waits",
            "_replace(installation, tx, new.repo_id, place, EntryState.PENDING, fresh_id, now)",
            "pass",
        ),
        (
            "redacted is out of use",
            "if found.state in (EntryState.PENDING, EntryState.APPROVED):",
            "if False:",
        ),
        ("redacted is gone", '"summary": REDACTED, ', ""),
        (
            "log of decisions",
            "_log(installation, tx, Act.APPROVED if approve else Act.REJECTED, decided, now, by)",
            "pass",
        ),
        ("log of redactions", "_log(installation, tx, Act.REDACTED, redacted, now, by)", "pass"),
        (
            "log of replacements",
            "    if row is not None:\n        _log(",
            "    if False:\n        _log(",
        ),
        (
            "rename of one tenant",
            "table.c.installation_id == installation,\n                table.c.repo_id == repo_id,",
            "table.c.repo_id == repo_id,",
        ),
        (
            "rename of one repository",
            "table.c.installation_id == installation,\n                table.c.repo_id == repo_id,",
            "table.c.installation_id == installation,",
        ),
    ),
    *_of(
        REVOKE,
        "book",
        ("entries end", "e.state.in_(_OPEN),\n", "e.state == 'x',\n"),
        ("below", "at_or_below(e.place, place.below),", "e.place == place.below,"),
        (
            "of one repository",
            "e.repo_id == room(place.repo_id),\n            at_or_below",
            "at_or_below",
        ),
        (
            "written once",
            "    if standing is None:\n        tx.execute(",
            "    if True:\n        tx.execute(",
        ),
        (
            "lifted by name",
            "            _r.below == place.below,\n            _r.lifted_at.is_(None),\n        )\n        .values(",
            "            _r.lifted_at.is_(None),\n        )\n        .values(",
        ),
        (
            "lifted is open",
            "            _r.repo_id.in_((SHARED, repo_id)),\n            _r.lifted_at.is_(None),",
            "            _r.repo_id.in_((SHARED, repo_id)),",
        ),
        (
            "shared ones too",
            "            _r.repo_id.in_((SHARED, repo_id)),\n            _r.lifted_at",
            "            _r.repo_id == repo_id,\n            _r.lifted_at",
        ),
        (
            "denied of one tenant",
            "            _r.installation_id == installation,\n            _r.repo_id.in_((SHARED, repo_id)),\n            _r.lifted_at",
            "            _r.repo_id.in_((SHARED, repo_id)),\n            _r.lifted_at",
        ),
        ("places above", "_r.below.in_(above),", "_r.below == place,"),
        (
            "lifted takes again",
            "            _r.below.in_(above),\n            _r.lifted_at.is_(None),",
            "            _r.below.in_(above),",
        ),
        ("log of lifting", "        Act.LIFTED,", "        Act.REVOKED,"),
        ("log of revoking", "        by=by,\n            entry=entry,", "        entry=entry,"),
    ),
    *_of(
        PLACES,
        "book",
        ("bad keys", "return Refusal.BAD_KEY", 'prefix = KeyPrefix.parse("repo/octo/demo")'),
        ("other tenants", "prefix.owner.installation_id != installation or", ""),
        (
            "shared from a repository",
            " or repo_id is not None:\n            return Refusal.OTHER_OWNER",
            ":\n            return Refusal.OTHER_OWNER",
        ),
        ("entry elsewhere", "if repo_id is not None and entry.repo_id != repo_id:", "if False:"),
        ("repository elsewhere", "if repo_id is not None and known != repo_id:", "if False:"),
        (
            "entry of the tenant",
            "e.installation_id == installation, e.id == entry_id",
            "e.id == entry_id",
        ),
        ("name of the tenant", "                table.c.installation_id == installation,\n", ""),
        ("latest holder of a name", "order.desc()", "order"),
    ),
    *_of(
        ROWS,
        "book",
        ("whole segments", '(column >= f"{below}/")', "(column >= below)"),
        ("end of the range", '(column < f"{below}0")', '(column < "~")'),
        (
            "no wildcards",
            '(column == below) | ((column >= f"{below}/") & (column < f"{below}0"))',
            'column.like(f"{below}%")',
        ),
    ),
    *_of(
        READS,
        "book",
        (
            "entry of the tenant",
            "e.installation_id == installation, e.id == found",
            "e.id == found",
        ),
        (
            "list of the tenant",
            "[e.installation_id == installation]\n    if filters.repo_id",
            "[e.installation_id > 0]\n    if filters.repo_id",
        ),
        (
            "find in the tenant",
            "base = (e.installation_id == installation, e.repo_id",
            "base = (e.repo_id",
        ),
        ("find in the repository", "e.repo_id.in_(rooms), e.state", "e.state"),
        (
            "usable of the tenant",
            "                e.installation_id == installation,\n                e.repo_id == each,",
            "                e.repo_id == each,",
        ),
        (
            "usable of the repository",
            "                e.installation_id == installation,\n                e.repo_id == each,",
            "                e.installation_id == installation,",
        ),
        ("usable is approved", "                e.state == EntryState.APPROVED,\n", ""),
        (
            "usable is not old",
            "                or_(e.expires_at.is_(None), e.expires_at > now),\n",
            "",
        ),
        (
            "shared where granted",
            "in (repo_id, SHARED) if shared else (repo_id,):",
            "in (repo_id, SHARED):",
        ),
        (
            "text without wildcards",
            "e.summary.icontains(text, autoescape=True), e.place.icontains(text, autoescape=True)",
            "e.summary.icontains(text), e.place.icontains(text)",
        ),
    ),
    *_of(
        ACTIVITY,
        "book",
        (
            "known of the tenant",
            "        e.installation_id == installation,\n        e.repo_id.in_((SHARED, repo_id)),\n",
            "        e.repo_id.in_((SHARED, repo_id)),\n",
        ),
        ("known of the repository", "        e.repo_id.in_((SHARED, repo_id)),\n", ""),
        ("known is in use", "        e.state == EntryState.APPROVED,\n", ""),
        ("known is not old", "if each.usable(now)}", "}"),
        ("name of today", "if key.owner.repo == repo:", "if key.owner.repo is not None:"),
        ("counted once", "if each.id not in before]", "]"),
    ),
    *_of(
        SWEEPS,
        "book",
        ("only what ended", "e.state.in_(_ENDED), e.updated_at < before", "e.updated_at < before"),
        ("only what is old", "e.state.in_(_ENDED), e.updated_at < before", "e.state.in_(_ENDED)"),
    ),
    *_of(
        RETENTION,
        "book",
        ("one tenant", "[table.c.installation_id == installation]", "[]"),
    ),
)
