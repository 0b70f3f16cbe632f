"""A server under load: its speed against plain decoding, its latency, its memory, and whether its answers are right.

    python benchmarks/serve.py RUN --source test.de [--requests 10000] [--only load,abuse,memory]

It starts `translate serve RUN` on a free port of this machine, with the settings that follow `--`, and stops it again.

load: 1, 8 and 64 clients send one line per request, and each answer is compared with `translate decode`'s. Before and
after each turn the same lines are decoded in a process that has loaded the model, so that both are measured in the same
minutes: other work on the machine slows both. "of CPU" compares the processor time of the two processes, which other
work hardly changes; it does not count the client, a third process. abuse: clients that hang up, that send nothing or
malformed bodies or 10 MB, and that do not read; lines that are asked for meanwhile are answered as before. memory: the
server's resident memory over as many requests as --requests.
"""

import argparse
import asyncio
import contextlib
import http.client
import json
import os
import queue
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


def processor_seconds(process: subprocess.Popen[str]) -> float:
    """The time that a process has had on all processors; what else runs on the machine hardly changes it."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class ServedRun:
    """`translate serve RUN` in a process of its own."""

    def __init__(self, run: Path, options: Sequence[str]) -> None:
        command = [sys.executable, "-m", "translate", "serve", str(run), "--port", "0", *options]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        for line in self.process.stderr:
            print("   ", line, end="")
            if match := re.search(r"http://[\d.]+:\d+", line):
                self.address = match[0]
                return
        raise SystemExit("the server did not start")

    @property
    def memory(self) -> float:
        """Resident memory in MiB."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGESIZE") / 2**20

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        _, rest = self.process.communicate(timeout=90)
        print(f"    {rest.strip().splitlines()[-1]} Exit code {self.process.returncode}.")


class Decoder:
    """Plain decoding by the same code as `translate decode`, in a process that waits for its turn."""

    def __init__(self, run: Path, source: Path, options: Sequence[str]) -> None:
        code = (
            "import sys, time\n"
            "from translate.decoding.loading import load_translator\n"
            "options = dict(zip((each[2:].replace('-', '_') for each in sys.argv[3::2]), sys.argv[4::2]))\n"
            "options = {key: int(each) if each.isdecimal() else each for key, each in options.items()}\n"
            "translator = load_translator(sys.argv[1], options=options, token_scores=False).translator\n"
            "lines = open(sys.argv[2], encoding='utf-8').read().splitlines()\n"
            "for number in sys.stdin:\n"
            "    started = time.perf_counter(); chosen = lines[:int(number)]\n"
            "    texts = [each.text for each in translator.translate_stream(chosen)]\n"
            "    print(time.perf_counter() - started, flush=True)\n"
        )
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, str(run), str(source), *options],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def seconds(self, num_lines: int) -> float:
        """The seconds that the first lines take."""
        assert self.process.stdin is not None and self.process.stdout is not None
        print(num_lines, file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())


def ask_all(
    address: str, lines: Sequence[str], expected: Sequence[str], *, num_clients: int
) -> tuple[float, list[float], int]:
    """Send each line in its own request; returns the seconds of all and of each, and the number of wrong answers."""
    waiting = queue.SimpleQueue[tuple[str, str]]()
    for pair in zip(lines, expected, strict=False):
        waiting.put(pair)

    def client() -> list[tuple[float, bool]]:
        connection, answered = http.client.HTTPConnection(address.removeprefix("http://"), timeout=120), []
        with contextlib.closing(connection), contextlib.suppress(queue.Empty):
            while True:
                line, wanted = waiting.get_nowait()
                asked = time.perf_counter()
                body = json.dumps({"text": line}).encode()
                connection.request("POST", "/translate", body, {"Content-Type": "application/json"})
                response = connection.getresponse()
                (found,) = json.loads(response.read())["translations"]
                right = (response.status, found["source"], found["text"]) == (200, line, wanted)
                answered.append((time.perf_counter() - asked, right))
        return answered

    started = time.perf_counter()
    with ThreadPoolExecutor(num_clients) as pool:
        clients = [pool.submit(client) for _ in range(num_clients)]
        answers = [answer for each in clients for answer in each.result()]
    total = time.perf_counter() - started
    return total, sorted(seconds for seconds, _ in answers), sum(not right for _, right in answers)


def measure_load(
    server: ServedRun, decoder: Decoder, lines: Sequence[str], expected: Sequence[str], clients: Sequence[int]
) -> None:
    decoder.seconds(len(lines))  # loads and warms up
    print("  clients  lines  lines/s   decode  ratio of CPU     p50     p95     p99 wrong")
    for num_clients in clients:
        chosen = lines[: 200 if num_clients == 1 else None]
        cpu = processor_seconds(decoder.process)
        before = decoder.seconds(len(chosen))
        plain_cpu, cpu = processor_seconds(decoder.process) - cpu, processor_seconds(server.process)
        total, seconds, wrong = ask_all(server.address, chosen, expected, num_clients=num_clients)
        cpu = processor_seconds(server.process) - cpu
        plain = statistics.mean([before, decoder.seconds(len(chosen))])
        p50, p95, p99 = (seconds[min(len(seconds) - 1, int(share * len(seconds)))] for share in (0.5, 0.95, 0.99))
        print(
            f"{num_clients:>9} {len(chosen):>6} {len(chosen) / total:>8.1f} {len(chosen) / plain:>8.1f}"
            f" {plain / total:>6.2f} {plain_cpu / cpu:>6.2f} {p50:>6.3f}s {p95:>6.3f}s {p99:>6.3f}s {wrong:>5}",
            flush=True,
        )


async def abuse(server: ServedRun, lines: Sequence[str], expected: Sequence[str]) -> None:
    host, port = server.address.removeprefix("http://").split(":")
    body = json.dumps({"text": list(lines[:100])}).encode()

    def head(length: int, kind: str = "application/json") -> bytes:
        fields = {"Host": host, "Content-Type": kind, "Content-Length": length}
        lines = ["POST /translate HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
        return "\r\n".join(lines).encode()

    async def send(data: bytes, *, seconds: float, answers: bool) -> str:
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            writer.write(data)
            await writer.drain()
            if answers:
                return (await asyncio.wait_for(reader.readline(), seconds)).decode().strip()
            await asyncio.sleep(seconds)
            return ""
        except ConnectionError as error:  # refused before all of it was sent
            return type(error).__name__
        finally:
            writer.transport.abort()

    hang_up = [send(head(len(body)) + body, seconds=0.02 * number, answers=False) for number in range(20)]
    half = [send(head(len(body)) + body[:50], seconds=3, answers=False) for _ in range(20)]
    unread = [send((head(len(body)) + body) * 5, seconds=3, answers=False) for _ in range(5)]
    asked = asyncio.create_task(asyncio.to_thread(ask_all, server.address, lines[:200], expected, num_clients=8))
    await asyncio.gather(*hang_up, *half, *unread)
    for name, data in {
        "no JSON": head(3) + b"{{{",
        "not UTF-8": head(4) + b'"\xff\xfe"',
        "10 MB, declared": head(10_000_000) + b"a" * 10_000_000,
        "10 MB of [": head(10_000_000) + b"[" * 10_000_000,
        "no HTTP": b"\x16\x03\x01 hello\r\n\r\n",
        "a head of 1 MB": b"GET / HTTP/1.1\r\nHost: " + b"a" * 1_000_000,
        "a form of many fields": head(1_900_000, "application/x-www-form-urlencoded") + b"q=a&" * 475_000,
    }.items():
        print(f"    {name}: {await send(data, seconds=30, answers=True)}")
    _, seconds, wrong = await asked
    print(f"    200 lines meanwhile: {wrong} wrong answers, the slowest after {seconds[-1]:.2f} s")


def measure_memory(server: ServedRun, lines: Sequence[str], expected: Sequence[str], *, num_requests: int) -> None:
    print(f"    {0:>6} requests: {server.memory:.0f} MiB")
    share = num_requests // 10
    asked, wanted = ((list(each) * (1 + share // len(each)))[:share] for each in (lines, expected))
    for number in range(1, 11):
        total, _, wrong = ask_all(server.address, asked, wanted, num_clients=64)
        assert not wrong, f"{wrong} wrong answers"
        print(f"    {number * share:>6} requests: {server.memory:.0f} MiB, {share / total:.0f} requests/s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--only", default="load,abuse,memory")
    given, options = parser.parse_known_args()
    options = [each for each in options if each != "--"]
    decoded = subprocess.run(
        [sys.executable, "-m", "translate", "decode", str(given.run), str(given.source), *options],
        stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    lines, expected = given.source.read_text(encoding="utf-8").splitlines(), decoded.stdout.splitlines()
    server = ServedRun(given.run, options)
    try:
        if "load" in given.only:
            measure_load(server, Decoder(given.run, given.source, options), lines, expected, given.clients)
        if "abuse" in given.only:
            asyncio.run(abuse(server, lines, expected))
        if "memory" in given.only:
            measure_memory(server, lines, expected, num_requests=given.requests)
    finally:
        server.stop()


if __name__ == "__main__":
    main()
