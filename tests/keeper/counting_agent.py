"""An agent that counts, as a separate process: it prints numbered lines, and at last what it has heard.

python counting_agent.py LINES PAUSE EXIT

It pauses for so many seconds after every ten lines. It ends a moment after it has heard one answer for every 50 lines:
a second copy of an answer would be heard too.
"""

import json
import sys
import threading
import time

COUNT = int(sys.argv[1])
PAUSE = float(sys.argv[2])
heard: list[str] = []
complete = threading.Event()


def listen() -> None:
    for line in sys.stdin:
        heard.append(line.strip())
        if len(heard) >= (COUNT + 49) // 50:
            complete.set()


threading.Thread(target=listen, daemon=True).start()
for number in range(COUNT):
    sys.stdout.write(json.dumps({"line": number, "pad": "x" * (number * 37 % 900)}) + "\n")
    sys.stdout.flush()
    if number % 10 == 0:
        time.sleep(PAUSE)
complete.wait()
time.sleep(0.2)
print(json.dumps({"heard": heard}), flush=True)
sys.exit(int(sys.argv[3]))
