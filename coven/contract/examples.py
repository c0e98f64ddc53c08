"""The golden examples: one brief and one result that say what the contract looks like."""

from __future__ import annotations

from coven.contract.brief import (
    BriefFamiliar,
    BriefRepo,
    BriefWorkspace,
    RespondToMention,
    ReviewContext,
    ReviewFile,
    SessionBrief,
)
from coven.contract.memory import (
    BranchScope,
    MemoryPolicy,
    MemoryProposal,
    MemoryRead,
    MemoryUsed,
    RepoScope,
    Retention,
    TenantScope,
)
from coven.contract.result import Finding, Result, Review, TestRun


def brief() -> SessionBrief:
    """A review of a pull request with memory granted."""
    return SessionBrief(
        trigger="issue_mention",
        repo=BriefRepo(
            owner="acme-inc",
            name="billing",
            clone_url="https://github.com/acme-inc/billing.git",
            default_branch="main",
        ),
        task=RespondToMention(issue_number=42, comment_body="Review this pull request."),
        familiar=BriefFamiliar(
            id="cody", display_name="Cody", model="claude-sonnet-4-6", skills=("code-review",)
        ),
        workspace=BriefWorkspace(root="/workspace"),
        review_context=ReviewContext(
            files=(ReviewFile(filename="src/tax/rounding.py"), ReviewFile(filename="CHANGELOG.md"))
        ),
        audit_instruction="Look at rounding of negative amounts first.",
        memory_policy=MemoryPolicy(
            enabled=True,
            tenant_scope=TenantScope(installation_id=42, account_id=1001, account_login="acme-inc"),
            repo_scope=RepoScope(
                repo_id=555,
                owner="acme-inc",
                name="billing",
                visibility="private",
                default_branch="main",
            ),
            branch_scope=BranchScope(base_ref="main", head_ref="fix/tax-rounding", same_repo=True),
            trust_scope="maintainer",
            read_scopes=("repo", "tenant_shared"),
            write_scopes=("repo",),
            approval_required=True,
            retention=Retention(max_age_days=365),
            denied=("repo/acme-inc/billing/conventions/old-tables",),
        ),
    )


def result() -> Result:
    """The answer to that brief: one finding, one memory read, one proposed."""
    return Result(
        contract_version="2",
        status="success",
        branch=None,
        commits=(),
        files_changed=(),
        summary="Reviewed the rounding change; one medium finding.",
        pr_body="The change is sound, apart from negative amounts.",
        review=Review(
            mode="pull_request",
            evidence_status="complete",
            reviewed_files=("src/tax/rounding.py", "CHANGELOG.md"),
            supporting_files=("tests/test_rounding.py",),
            findings=(
                Finding(
                    severity="medium",
                    file="src/tax/rounding.py",
                    line=17,
                    title="Negative amounts round away from zero",
                    body="A refund of -0.005 becomes -0.01, so a refund can exceed its charge.",
                    recommendation="Round half to even, as the tables do.",
                ),
            ),
            tests_run=(
                TestRun(
                    command="pytest tests/test_rounding.py",
                    status="passed",
                    output_summary="12 passed",
                ),
            ),
            no_findings_reason=None,
            limitations=("No network, so the tax tables were not compared with their source.",),
        ),
        exit_reason=None,
        memory_used=MemoryUsed(
            enabled=True,
            read=(MemoryRead(id="repo/acme-inc/billing/conventions/rounding", scope="repo"),),
            proposed=(
                MemoryProposal(
                    key="repo/acme-inc/billing/conventions/tax-tables",
                    summary="Tax tables live in src/tax/tables.py, not in the database.",
                    scope="repo",
                    approval="pending",
                ),
            ),
        ),
    )
