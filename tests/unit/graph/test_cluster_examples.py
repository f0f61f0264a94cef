"""The StreamJobs of the applications fit their code, the SparkApplications that write their input, and their pages."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.contract.graph import Source
from penstock.graph import load_job, read_job_file
from penstock.graph.entrypoint import add_folders
from penstock_spark.cli import command_line

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples"
FILES = sorted((EXAMPLES / "kubernetes" / "applications").glob("*.yaml"))
INPUTS: list[Any] = yaml.safe_load((EXAMPLES / "kubernetes" / "spark" / "inputs.yaml").read_text())["items"]
PAGES = sorted((ROOT / "docs" / "applications").glob("*.md"))
DATASETS = {i["spec"]["arguments"][1]: i for i in INPUTS}


def by_name(path: Path) -> str:
    return path.stem


@pytest.mark.parametrize("file", FILES, ids=by_name)
def test_an_application_reads_what_is_pushed_and_mounts_its_code(file: Path) -> None:
    spec = yaml.safe_load(file.read_text())["spec"]
    add_folders([EXAMPLES])
    job = load_job(read_job_file(file), None)
    sources = [step.parameters.connector for step in job.graph.steps if isinstance(step.parameters, Source)]
    assert [(s.kind, s.options["announce"]) for s in sources] == [("ingest", spec["job"]["parameters"]["announce"])]
    template = spec["podTemplate"]["spec"]
    engine = next(c for c in template["containers"] if c["name"] == "engine")
    (code,) = [v["configMap"]["name"] for v in template["volumes"] if "configMap" in v]
    (mount,) = [m["mountPath"] for m in engine["volumeMounts"] if m["name"] == "jobs"]
    assert {"name": "PYTHONPATH", "value": mount} in spec["env"]
    module = spec["job"]["entrypoint"].partition(":")[0]
    assert f"kubectl create configmap {code} --from-file=examples/{module}.py" in page_of(file)


@pytest.mark.parametrize("file", FILES, ids=by_name)
def test_what_is_pushed_is_written_by_a_spark_application_that_the_page_names(file: Path) -> None:
    dataset = yaml.safe_load(file.read_text())["spec"]["replay"]["dataset"]
    label = DATASETS[dataset]["metadata"]["labels"]["app"]
    assert f"kubectl apply -f examples/kubernetes/spark/inputs.yaml -l app={label}" in page_of(file)
    assert f"kubectl wait sparkapplication/{DATASETS[dataset]['metadata']['name']} " in page_of(file)


@pytest.mark.parametrize("file", FILES, ids=by_name)
def test_a_page_shows_a_part_of_the_job_as_it_is(file: Path) -> None:
    shown = re.findall(r"```yaml\n(.*?)```", page_of(file), re.DOTALL)
    assert any(is_part(yaml.safe_load(each), yaml.safe_load(file.read_text())) for each in shown), shown


def page_of(file: Path) -> str:
    (found,) = [text for text in (page.read_text() for page in PAGES) if f"applications/{file.name})" in text]
    return found


def is_part(shown: Any, whole: Any) -> bool:
    """Return whether all that is shown is in the whole."""
    if isinstance(shown, dict) and isinstance(whole, dict):
        return all(name in whole and is_part(value, whole[name]) for name, value in shown.items())
    return bool(shown == whole)


@pytest.mark.parametrize("dataset", INPUTS, ids=lambda i: i["metadata"]["name"])
def test_a_spark_application_writes_a_dataset(dataset: Any) -> None:
    spec = dataset["spec"]
    options = command_line().parse_args(spec["arguments"])
    assert str(options.output).startswith("/data/")
    assert spec["driver"]["template"]["spec"]["volumes"] == [
        {"name": "data", "persistentVolumeClaim": {"claimName": "shared"}}
    ]


def test_every_application_runs_in_a_cluster() -> None:
    assert len(FILES) == 7
    word_count = yaml.safe_load((EXAMPLES / "kubernetes" / "replayed.yaml").read_text())
    assert word_count["spec"]["replay"]["dataset"] in DATASETS
