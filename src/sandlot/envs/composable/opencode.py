"""The harness of OpenCode, an agent that is a program of its own.

Invariants: the program is taken where it is in the sandbox's path, else fetched by version and digest; where neither
can be, the set-up fails and says so.
"""

from __future__ import annotations

import json
import posixpath
import shlex
from typing import Any

from sandlot.envs.composable.harness import Harness

DEFAULT_RELEASE_REPO = "PrimeIntellect-ai/opencode"
DEFAULT_RELEASE_VERSION = "1.1.63-rl2"
DEFAULT_RELEASE_SHA256 = "47f4102796da50769e27d2c9ea6a9cf7941f76898390cb497278cab39c4b6ed4"
DEFAULT_SYSTEM_PROMPT = """\
You are an agent that works on a task in a shell, alone: nobody answers questions. Look before you change something,
change as little as the task needs, run what you made, and stop when it works. Where the task names a file for the
answer, the answer counts only if it stands there."""
DEFAULT_DISABLED_TOOLS = [
    "apply_patch", "batch", "codesearch", "glob", "grep", "list", "lsp", "multiedit", "plan_enter", "plan_exit",
    "question", "read", "skill", "task", "todoread", "todowrite", "webfetch", "websearch", "write",
]  # fmt: skip
"""Tools of OpenCode that the model is not offered: what remains is the shell and single edits."""

_HOME = "$HOME/.opencode/bin"


def build_install_script(
    release_repo: str = DEFAULT_RELEASE_REPO,
    release_version: str = DEFAULT_RELEASE_VERSION,
    release_sha256: str = DEFAULT_RELEASE_SHA256,
) -> str:
    """Installs OpenCode from its release page, unless it is there."""
    version = release_version.removeprefix("v")
    folder = f"https://github.com/{release_repo}/releases/download/v{version}"
    return f"""\
set -e
export PATH="{_HOME}:$PATH"
if command -v opencode > /dev/null; then exit 0; fi
missing() {{
  echo "OpenCode {version} is not in the sandbox, and $1. Put the program opencode in the sandbox's path, or play" \\
       "where the sandbox reaches the network." >&2
  exit 1
}}
for program in curl tar sha256sum; do
  command -v "$program" > /dev/null || missing "to fetch it the sandbox needs $program"
done
case "$(uname -m)" in
  x86_64) machine=x64 ;;
  aarch64|arm64) machine=arm64 ;;
  *) missing "there is none for the machine $(uname -m)" ;;
esac
archive=/tmp/opencode.tar.gz
curl -fsSL --connect-timeout 20 -o "$archive" {shlex.quote(folder)}/opencode-linux-$machine.tar.gz \\
  || missing "it could not be fetched from {folder}"
echo "{release_sha256}  $archive" | sha256sum -c - > /dev/null || missing "what was fetched has another digest"
mkdir -p "{_HOME}"
tar -xzf "$archive" -C /tmp
install -m 755 /tmp/opencode "{_HOME}/opencode"
rm -f "$archive"
"""


def build_opencode_config(
    disabled_tools: list[str] | None = None,
    system_prompt_path: str | None = None,
    disable_compaction: bool = True,
    provider_key: str = "${OPENAI_MODEL%%/*}",
    provider_display_name: str | None = None,
    model_id: str = "$OPENAI_MODEL",
    model_key: str = "${OPENAI_MODEL##*/}",
    model_display_name: str | None = None,
    provider_timeout_ms: int = 3_600_000,
) -> str:
    """OpenCode's config: one provider, which is the rollout's endpoint. The shell fills in its `$` words."""
    model = {
        "name": model_display_name or model_key,
        "modalities": {"input": ["text", "image"], "output": ["text"]},
        "interleaved": {"field": "reasoning_content"},
    }
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": provider_display_name or provider_key,
        "options": {
            "baseURL": "$OPENAI_BASE_URL",
            "apiKey": "${OPENAI_API_KEY:-intercepted}",
            "timeout": provider_timeout_ms,
        },
        "models": {model_key: model},
    }
    config: dict[str, Any] = {"provider": {provider_key: provider}, "model": model_id}
    if disable_compaction:
        config["compaction"] = {"auto": False, "prune": False}
    agent: dict[str, Any] = {}
    if system_prompt_path:
        agent["prompt"] = f"{{file:{system_prompt_path}}}"
    if disabled_tools:
        agent["tools"] = dict.fromkeys(disabled_tools, False)
    if agent:
        config["agent"] = {"build": agent}
    return json.dumps(config, indent=2)


def build_opencode_run_command(
    agent_workdir: str = "/app",
    prompt_path: str = "/opencode/prompt.txt",
    log_path: str = "/opencode/logs.txt",
    allow_git: bool = False,
    **config: Any,
) -> str:
    """Writes the config, and runs OpenCode on the instruction. `config` is as of `build_opencode_config`."""
    script = f"""\
set -eo pipefail
export PATH="{_HOME}:$PATH" OPENCODE_DISABLE_FILETIME_CHECK=true ALLOW_GIT={int(allow_git)}
folder="${{AGENT_WORKDIR:-{agent_workdir}}}"
mkdir -p ~/.config/opencode {shlex.quote(posixpath.dirname(log_path))} "$folder"
case "$OPENAI_MODEL" in
  */*) ;;
  *) export OPENAI_MODEL="policy/$OPENAI_MODEL" ;;
esac
cat > ~/.config/opencode/opencode.json << END_OF_CONFIG
{build_opencode_config(**config)}
END_OF_CONFIG
cd "$folder"
opencode run < {shlex.quote(prompt_path)} 2>&1 | tee {shlex.quote(log_path)}
"""
    return f"bash -lc {shlex.quote(script)}"


OPENCODE_INSTALL_SCRIPT = build_install_script()


def opencode_harness(
    system_prompt: str | None = DEFAULT_SYSTEM_PROMPT,
    task_system_prompt: str | None = None,
    disabled_tools: list[str] | None = None,
    agent_workdir: str = "/app",
    allow_git: bool = False,
    release_repo: str = DEFAULT_RELEASE_REPO,
    release_version: str = DEFAULT_RELEASE_VERSION,
    release_sha256: str = DEFAULT_RELEASE_SHA256,
    instruction_path: str = "/opencode/prompt.txt",
    system_prompt_path: str = "/opencode/system.txt",
    log_path: str = "/opencode/logs.txt",
    **config: Any,
) -> Harness:
    """OpenCode as an agent. Other options are those of `build_opencode_config`."""
    prompt = "\n".join(text for text in (system_prompt, task_system_prompt) if text) or None
    return Harness(
        install_script=build_install_script(release_repo, release_version, release_sha256),
        run_command=build_opencode_run_command(
            agent_workdir,
            instruction_path,
            log_path,
            allow_git,
            disabled_tools=disabled_tools,
            system_prompt_path=system_prompt_path if prompt else None,
            **config,
        ),
        system_prompt=prompt,
        instruction_path=instruction_path,
        system_prompt_path=system_prompt_path,
        log_path=log_path,
    )
