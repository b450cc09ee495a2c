"""A small agent program: it asks the policy, runs what the policy says in a shell, and tells it what came of it.

It stands where a real agent would: Python's own library only, because it runs in a sandbox.
"""

AGENT = """
import json, os, subprocess, sys, urllib.request

def ask(messages):
    body = {"model": os.environ["OPENAI_MODEL"], "messages": messages, "tools": [TOOL]}
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]},
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=60) as response:
        return json.load(response)["choices"][0]["message"]

TOOL = {"type": "function", "function": {"name": "bash", "parameters": {"type": "object", "properties": {}}}}
instruction = sys.stdin.read() if len(sys.argv) < 2 or sys.argv[1] == "run" else sys.argv[1]
messages = [{"role": "user", "content": instruction}]
while True:
    said = ask(messages)
    messages.append(said)
    if not said.get("tool_calls"):
        break
    for call in said["tool_calls"]:
        script = json.loads(call["function"]["arguments"])["command"]
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": done.stdout + done.stderr})
print("the agent is done")
"""


def installed_as(path: str) -> str:
    """A script that lays the agent at `path` as a program."""
    program = f'echo "#!/usr/bin/env python3"; cat << "END"\n{AGENT}\nEND\n'
    return f'mkdir -p "$(dirname {path})" && {{ {program}}} > {path} && chmod +x {path}'
