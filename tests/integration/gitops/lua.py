"""Scripts in the engine of Argo CD (gopher-lua), with as few libraries as Argo CD gives them."""

import json
import subprocess
from pathlib import Path
from typing import Any

from tools.argocd import script

TIMEOUT_S = 60
# Argo CD opens the base and table libraries, and of os the clock; strings have no methods.
PRELUDE = """
local format, gsub, write = string.format, string.gsub, io.write
getmetatable("").__index = nil
os = {time = os.time, date = os.date}
string, math, io, debug, coroutine, channel, require = nil

local function encoded(value)
  if type(value) == "table" then
    local parts = {}
    if value[1] ~= nil or next(value) == nil then -- an empty table is a list, as in Argo CD
      for _, item in ipairs(value) do parts[#parts + 1] = encoded(item) end
      return "[" .. table.concat(parts, ",") .. "]"
    end
    for name, item in pairs(value) do
      parts[#parts + 1] = encoded(name) .. ":" .. encoded(item)
    end
    return "{" .. table.concat(parts, ",") .. "}"
  end
  if type(value) ~= "string" then return tostring(value) end
  return '"' .. gsub(gsub(value, '[\\\\"]', "\\\\%0"), "%c", function(c)
    return format("\\\\u%04x", c == "\\n" and 10 or 32)
  end) .. '"'
end
"""


def run(glua: Path, script: str, objects: list[Any], folder: Path) -> list[Any]:
    """Return what the script gives for each object. Raises AssertionError in the engine's words."""
    program = folder / "program.lua"
    calls = [f"obj = {literal(o)}\nwrite(encoded(script()), '\\n')" for o in objects]
    program.write_text(PRELUDE + f"local function script()\n{script}\nend\n" + "\n".join(calls), encoding="utf-8")
    done = subprocess.run([str(glua), str(program)], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert not done.stderr, done.stderr
    assert done.returncode == 0
    return [json.loads(line) for line in done.stdout.splitlines()]


def health(glua: Path, folder: Path, objects: list[Any], kind: str = "StreamJob") -> list[Any]:
    """Return Argo CD's judgement of each object: ``status`` and ``message``."""
    return run(glua, script(f"{kind}/health.lua"), objects, folder)


def literal(value: Any) -> str:
    """Spell plain data as Lua reads it."""
    match value:
        case None:
            return "nil"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():
            return '"' + "".join(f"\\{byte:03d}" for byte in value.encode()) + '"'
        case list():
            return "{" + ", ".join(literal(v) for v in value) + "}"
    return "{" + ", ".join(f"[{literal(k)}] = {literal(v)}" for k, v in value.items()) + "}"
