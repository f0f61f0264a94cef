"""Writes gitops/argocd/argocd-cm.yaml from the Lua beside it: ``python -m tools.argocd``.

Argo CD reads health checks and actions from its ConfigMap ``argocd-cm``; the scripts are kept as
files of their own, so that they can be read, tested and given upstream.
"""

from pathlib import Path

import yaml

from tools.crds import GROUP

FOLDER = Path(__file__).parent.parent / "gitops" / "argocd"
FILE = FOLDER / "argocd-cm.yaml"
ACTIONS = ("suspend", "resume", "restart", "savepoint")
HEAD = """\
# Made by `python -m tools.argocd` from the Lua files beside it; edit those.
#   kubectl patch configmap argocd-cm -n argocd --patch-file gitops/argocd/argocd-cm.yaml
"""


class _Dumper(yaml.SafeDumper):
    """Writes scripts as blocks of text, as a reader wants to see them."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else "")


_Dumper.add_representer(str, _text)


def script(path: str) -> str:
    """Return one of the Lua files."""
    return (FOLDER / path).read_text(encoding="utf-8")


def actions() -> str:
    """Return the actions of a StreamJob as the value that Argo CD expects: YAML in a text."""
    folder = "StreamJob/actions"
    plain = {
        "discovery.lua": script(f"{folder}/discovery.lua"),
        "definitions": [{"name": name, "action.lua": script(f"{folder}/{name}/action.lua")} for name in ACTIONS],
    }
    return yaml.dump(plain, Dumper=_Dumper, sort_keys=False)


def render() -> str:
    """Return the whole file: a patch of the ConfigMap."""
    customizations = "resource.customizations"
    data = {
        f"{customizations}.health.{GROUP}_{kind}": script(f"{kind}/health.lua")
        for kind in ("StreamJob", "StreamSnapshot")
    }
    data[f"{customizations}.actions.{GROUP}_StreamJob"] = actions()
    return HEAD + yaml.dump({"data": data}, Dumper=_Dumper, sort_keys=False)


if __name__ == "__main__":
    FILE.write_text(render(), encoding="utf-8")
