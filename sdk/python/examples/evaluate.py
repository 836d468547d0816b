"""N copies of one VM judge N patches by a test suite: one line of JSON each, and the number that passed.

    python3 evaluate.py REPO "TEST COMMAND" PATCH…
"""

import asyncio
import json
import os
import sys
import time

from sbx import AsyncSandbox

# VMs at once; the sbx has a limit of its own (vm.resources.max_concurrent_vms).
AT_ONCE = int(os.environ.get("AT_ONCE", "4"))
# Seconds of one run of the tests.
TEST_SECONDS = 600


async def judge(vm: AsyncSandbox, path: str, test: str, forked_ms: int) -> bool:
    with open(path, "rb") as file:
        await vm.files.write("/workspace/change.patch", file.read())
    ran = await vm.exec(["git", "apply", "/workspace/change.patch"], cwd="/workspace/repo")
    if ran.exit_code == 0:
        ran = await vm.exec(["sh", "-c", test], cwd="/workspace/repo", timeout=TEST_SECONDS)
    costs = await vm.costs()
    result = {"patch": os.path.basename(path), "exit_code": ran.exit_code, "ms": ran.duration_ms}
    result |= {"forked_ms": forked_ms, "model_calls": len(costs["models"])}
    print(json.dumps({**result, "event": ran.event_id, "session": vm.id}), flush=True)
    return ran.exit_code == 0


async def main(repo: str, test: str, *patches: str) -> None:
    passed = 0
    place = {"dir": os.path.abspath(repo), "place": "/workspace/repo"}
    async with await AsyncSandbox.create(repo=place, ram_mb=512) as base:
        at = (await base.snapshot("before the patches"))["id"]
        for first in range(0, len(patches), AT_ONCE):
            batch = patches[first : first + AT_ONCE]
            begun = time.monotonic()
            copies = await base.fork(count=len(batch), at=at)
            forked_ms = round((time.monotonic() - begun) * 1000)
            try:
                judged = [judge(copy, path, test, forked_ms) for copy, path in zip(copies, batch)]
                passed += sum(await asyncio.gather(*judged))
            finally:
                await asyncio.gather(*(copy.close() for copy in copies))
    print(f"{passed} of {len(patches)} passed", file=sys.stderr)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit("usage: evaluate.py REPO TEST PATCH…")
    asyncio.run(main(*sys.argv[1:]))
