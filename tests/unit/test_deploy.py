# ruff: noqa: TID251 - the tools that check files are no effects of the product
"""What ``deploy/`` says is true: against published schemas, settings, code and the real tools."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator, Draft202012Validator

from coven.cli import processes
from coven.metrics import COUNTED, Kind
from coven.metrics_standing import ASKED, STANDING
from coven.settings.env import overlay, variable_of
from coven.settings.models import Settings, Worker
from coven.settings.schema import walk
from tests.services import missing

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
SCHEMAS = ROOT / "tests" / "fixtures" / "schemas"
KUBERNETES = DEPLOY / "kubernetes"
BASE = sorted(p for p in (KUBERNETES / "base").glob("*.yaml") if p.name != "kustomization.yaml")
ALERTS = DEPLOY / "prometheus" / "alerts.yaml"
METRICS = {metric.name: metric for metric in (*COUNTED, *STANDING, *ASKED)}

Json = Any


def tool(name: str) -> str:
    """Where a program is; a visible skip when it is not here."""
    found = shutil.which(name)
    if found is None:
        missing(name, "not on the PATH")
    return found


def compose() -> Json:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def documents(*files: Path) -> Iterator[Json]:
    for file in files:
        yield from (doc for doc in yaml.safe_load_all(file.read_text()) if doc)


def resources() -> list[Json]:
    return list(documents(*BASE, KUBERNETES / "overlays" / "production" / "autoscaler.yaml"))


def problems_of(resource: Json) -> list[str]:
    """What the schema of its kind has against a Kubernetes resource."""
    bundle = json.loads((SCHEMAS / "kubernetes.json").read_text())
    schema = bundle["kinds"][resource["kind"]] | {"$defs": bundle["$defs"]}
    return [error.message for error in Draft202012Validator(schema).iter_errors(resource)]


def deployment(name: str) -> Json:
    return next(
        r
        for r in resources()
        if r["kind"] == "Deployment" and r["metadata"]["name"] == f"coven-github-{name}"
    )


# --- compose


def test_compose_follows_the_published_schema() -> None:
    validator = Draft7Validator(json.loads((SCHEMAS / "compose.json").read_text()))
    # The old schema knows no names of projects; everything else is in it.
    described = {key: value for key, value in compose().items() if key != "name"}
    assert [error.message for error in validator.iter_errors(described)] == []


def test_compose_runs_every_process_and_waits_for_the_migration() -> None:
    services = compose()["services"]
    for name in ("web", "worker", "control", "beat"):
        assert services[name]["command"] == [name]
        waits = services[name]["depends_on"]["migrate"]["condition"]
        assert waits == "service_completed_successfully"
        assert services[name]["read_only"] is True
        assert services[name]["cap_drop"] == ["ALL"]
    assert {"migrate", "redis", "postgres", "caddy", "flower"} <= set(services)
    assert services["flower"]["profiles"] == ["flower"]
    redis = " ".join(services["redis"]["command"])
    assert "--maxmemory-policy noeviction" in redis
    assert "--appendonly yes" in redis


def test_what_compose_names_is_declared() -> None:
    found = compose()
    for name, service in found["services"].items():
        assert set(service.get("secrets", [])) <= set(found["secrets"]), name
        volumes = [volume.split(":")[0] for volume in service.get("volumes", [])]
        assert {v for v in volumes if not v.startswith(".")} <= set(found["volumes"]), name
        assert set(service.get("networks", [])) <= set(found["networks"]), name
        for place in (volume for volume in volumes if volume == "./caddy/Caddyfile"):
            assert (DEPLOY / place).is_file()
    paths = {secret["file"].removeprefix("./") for secret in found["secrets"].values()}
    assert all(path.startswith("secrets/") for path in paths)
    assert "deploy/secrets/" in (ROOT / ".gitignore").read_text()


def test_only_the_proxy_is_open_to_others_and_it_hides_the_metrics() -> None:
    published = {n: s["ports"] for n, s in compose()["services"].items() if "ports" in s}
    assert set(published) == {"caddy", "flower"}
    assert all(port.startswith("127.0.0.1:") for port in published["flower"])
    caddy = (DEPLOY / "caddy" / "Caddyfile").read_text()
    assert re.search(r"@metrics path /metrics /metrics/\*\s+respond @metrics 404", caddy)


# --- Kubernetes


@pytest.mark.parametrize(
    "resource", resources(), ids=lambda r: f"{r['kind']}/{r['metadata']['name']}"
)
def test_a_resource_follows_the_schema_of_its_kind(resource: Json) -> None:
    assert problems_of(resource) == []


def test_the_schema_notices_what_is_wrong() -> None:
    broken = deployment("web")
    broken["spec"]["template"]["spec"]["terminationGraceSeconds"] = 5
    assert problems_of(broken)


def test_every_file_is_used_and_every_used_file_is_there() -> None:
    for kustomization in KUBERNETES.rglob("kustomization.yaml"):
        described = yaml.safe_load(kustomization.read_text())
        named = [*described["resources"], *(p["path"] for p in described.get("patches", []))]
        for name in named:
            assert (kustomization.parent / name).exists(), name
        files = {p.name for p in kustomization.parent.glob("*.yaml")} - {"kustomization.yaml"}
        assert files == {name for name in named if name.endswith(".yaml")}


@pytest.mark.parametrize("overlay_name", ["small", "production"])
def test_a_rendered_overlay_follows_the_schemas(overlay_name: str) -> None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not here; the files are checked one by one above")
    done = subprocess.run(
        [kubectl, "kustomize", str(KUBERNETES / "overlays" / overlay_name)],
        capture_output=True,
        check=True,
        timeout=60,
    )
    rendered = [doc for doc in yaml.safe_load_all(done.stdout) if doc]
    assert [p for resource in rendered for p in problems_of(resource)] == []
    kinds = {(r["kind"], r["metadata"]["name"]): r for r in rendered}
    web = kinds["Deployment", "coven-github-web"]["spec"]
    assert ("replicas" in web) == (overlay_name == "small")
    images = {
        c["image"]
        for r in rendered
        if r["kind"] in {"Deployment", "Job"}
        for c in r["spec"]["template"]["spec"]["containers"]
    }
    assert images == {"ghcr.io/opencoven/coven-github:0.1.0"}


def test_pods_are_confined() -> None:
    for resource in resources():
        if resource["kind"] not in {"Deployment", "Job"}:
            continue
        pod = resource["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["automountServiceAccountToken"] is False
        for container in pod["containers"]:
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"] is True
            assert context["allowPrivilegeEscalation"] is False
            assert context["capabilities"] == {"drop": ["ALL"]}
            mounted = {mount["name"] for mount in container["volumeMounts"]}
            assert mounted == {volume["name"] for volume in pod["volumes"]}


def test_selectors_select() -> None:
    pods = {
        frozenset(r["spec"]["template"]["metadata"]["labels"].items())
        for r in resources()
        if r["kind"] == "Deployment"
    }
    for resource in resources():
        spec = resource.get("spec", {})
        selector = spec.get("selector") or spec.get("podSelector")
        if selector:
            labels = set(selector.get("matchLabels", selector).items())
            assert any(labels <= pod for pod in pods), resource["metadata"]


def test_no_secret_is_in_the_tree() -> None:
    for file in DEPLOY.rglob("*"):
        if file.is_file() and "secrets" not in file.parts:
            text = file.read_text()
            assert "kind: Secret\n" not in text
            assert "stringData" not in text
            assert "PRIVATE KEY" not in text
    assert not (DEPLOY / "secrets").exists() or "deploy/secrets/" in (
        (ROOT / ".gitignore").read_text()
    )


def kubernetes_config() -> Json:
    config = next(r for r in resources() if r["kind"] == "ConfigMap")
    return tomllib.loads(config["data"]["coven-github.toml"])


def known_keys() -> set[str]:
    return {key for key, _ in walk()}


def test_the_configuration_in_kubernetes_is_one() -> None:
    config = kubernetes_config()
    config["github"].pop("webhook_secret_file")
    Settings.model_validate(config)


# --- what all of them share


def variables() -> set[str]:
    found: set[str] = set()
    for file in DEPLOY.rglob("*"):
        if file.is_file():
            found |= set(re.findall(r"COVEN_GITHUB__[A-Z_]+", file.read_text()))
    return found


def test_every_variable_is_a_setting() -> None:
    assert len(variables()) > 5
    allowed = {variable_of(key) for key in known_keys()}
    allowed |= {f"{name}_FILE" for name in allowed}
    assert variables() <= allowed
    assert overlay({}, {"COVEN_GITHUB__METRICS__TOKEN": "x"})[1] == []


def patience(worker: Worker) -> float:
    return processes.worker(Settings(worker=worker)).patience_secs


def seconds(text: str) -> int:
    found = re.fullmatch(r"(\d+)(s?)", text)
    assert found is not None
    return int(found[1])


def test_everybody_waits_longer_than_a_worker_drains() -> None:
    unit = (DEPLOY / "systemd" / "coven-github-worker.service").read_text()
    stop = re.search(r"^TimeoutStopSec=(\d+)$", unit, re.M)
    assert stop is not None
    assert int(stop[1]) > patience(Worker())
    service = compose()["services"]["worker"]
    drain = int(service["environment"]["COVEN_GITHUB__WORKER__DRAIN_SECS"])
    assert seconds(service["stop_grace_period"]) > patience(Worker(drain_secs=drain))
    drain = kubernetes_config()["worker"]["drain_secs"]
    grace = deployment("worker")["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert grace > patience(Worker(drain_secs=drain))


@pytest.mark.parametrize("name", ["web", "control", "beat"])
def test_the_others_have_time_to_stop_too(name: str) -> None:
    needed = getattr(processes, name)(Settings()).patience_secs
    pod = deployment(name)["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] >= needed
    assert seconds(compose()["services"][name]["stop_grace_period"]) >= needed
    unit = (DEPLOY / "systemd" / "coven-github@.service").read_text()
    stop = re.search(r"^TimeoutStopSec=(\d+)$", unit, re.M)
    assert stop is not None
    assert int(stop[1]) >= needed


def test_the_image_is_made_as_promised() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    joined = text.replace("\\\n", " ")
    assert (
        len(re.findall(r"^FROM \$\{BASE_IMAGE\}\$\{BASE_DIGEST:\+@\$\{BASE_DIGEST\}\}", text, re.M))
        == 2
    )
    assert "--require-hashes" in joined
    assert "-r requirements.lock" in joined
    assert re.search(r"^USER 10001:10001$", text, re.M)
    assert "HEALTHCHECK" in text
    assert "/healthz" in text
    for line in re.findall(r"^COPY (?!--)(.+) \S+$", text, re.M):
        for name in line.split():
            assert (ROOT / name).exists(), name
            assert f"!{name}" in (DEPLOY / "Dockerfile.dockerignore").read_text()


def test_the_procfile_names_commands() -> None:
    lines = dict(line.split(": ") for line in (ROOT / "Procfile").read_text().splitlines())
    commands = {name: f"coven-github {name}" for name in ("web", "worker", "control", "beat")}
    assert lines == {"release": "coven-github db upgrade"} | commands


# --- systemd


@pytest.mark.parametrize(
    "unit",
    ["coven-github@web.service", "coven-github-worker.service", "coven-github-migrate.service"],
)
def test_a_unit_is_valid(unit: str, tmp_path: Path) -> None:
    program = tool("systemd-analyze")
    for file in (DEPLOY / "systemd").iterdir():
        text = file.read_text().replace("/opt/coven-github/.venv/bin/coven-github", "/bin/true")
        text = re.sub(r"^(User|Group)=.*$", r"\1=root", text, flags=re.M)
        (tmp_path / file.name).write_text(text)
    template = tmp_path / re.sub(r"@\w+\.", "@.", unit)
    (tmp_path / unit).write_text(template.read_text())
    done = subprocess.run(
        [program, "verify", "--man=no", f"./{unit}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    ours = [line for line in done.stderr.splitlines() if "coven-github" in line]
    assert ours == []
    assert done.returncode == 0, done.stderr


# --- Prometheus and Grafana


def expressions() -> Iterator[tuple[str, str]]:
    for group in yaml.safe_load(ALERTS.read_text())["groups"]:
        for rule in group["rules"]:
            yield f"alert {rule['alert']}", rule["expr"]
    board = json.loads((DEPLOY / "grafana" / "coven-github.json").read_text())
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            yield f"panel {panel['title']}", target["expr"]


@pytest.mark.parametrize(("where", "expression"), list(expressions()))
def test_every_metric_and_label_that_is_asked_for_exists(where: str, expression: str) -> None:
    names = re.findall(r"\bcoven_[a-z_]+", expression)
    assert names, where
    labels = {"le"}
    for name in names:
        base = re.sub(r"_(bucket|sum|count)$", "", name)
        metric = METRICS.get(name) or METRICS.get(base)
        assert metric is not None, f"{where}: {name}"
        assert (name != base) == (metric.kind is Kind.HISTOGRAM), f"{where}: {name}"
        labels |= set(metric.labels)
    used = set(re.findall(r"([a-z_]+)=~?\"|([a-z_]+)!=\"", expression))
    grouped = {
        w.strip() for by in re.findall(r"\bby \(([^)]*)\)", expression) for w in by.split(",")
    }
    assert {a or b for a, b in used} | grouped <= labels, where


def test_every_metric_is_shown_somewhere() -> None:
    asked = " ".join(expression for _, expression in expressions())
    assert {name for name in METRICS if name not in asked} == set()


def test_alert_rules_are_valid() -> None:
    done = subprocess.run(
        [tool("promtool"), "check", "rules", str(ALERTS)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_alerts_fire_when_they_should_and_only_then() -> None:
    done = subprocess.run(
        [tool("promtool"), "test", "rules", "alerts.test.yaml"],
        cwd=ALERTS.parent,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def alert_names() -> list[str]:
    return [r["alert"] for g in yaml.safe_load(ALERTS.read_text())["groups"] for r in g["rules"]]


def test_every_alert_is_tried_and_has_a_runbook() -> None:
    tried = yaml.safe_load((ALERTS.parent / "alerts.test.yaml").read_text())["tests"]
    fired = {
        case["alertname"]
        for test in tried
        for case in test["alert_rule_test"]
        if case["exp_alerts"]
    }
    assert fired == set(alert_names())
    headings = re.findall(r"^## (\w+)$", (ROOT / "docs" / "runbooks.md").read_text(), re.M)
    assert set(alert_names()) <= set(headings)


def test_panels_do_not_overlap() -> None:
    board = json.loads((DEPLOY / "grafana" / "coven-github.json").read_text())
    cells: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        mine = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert not mine & cells, panel["title"]
        cells |= mine
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
