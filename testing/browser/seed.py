"""Copies the one message of a SQLite storage many times, as fast as SQLite can: seed.py FILE COUNT.

The message was made by the program itself, so that nothing here knows how a message is written. A thousand of the
copies have the topic "rare".
"""

import sqlite3
import sys
import time

TABLE = "punctual_message"


def main(path, count):
    storage = sqlite3.connect(path)
    columns = [row[1] for row in storage.execute(f"PRAGMA table_info({TABLE})")]
    sample = dict(zip(columns, storage.execute(f"SELECT {', '.join(columns)} FROM {TABLE}").fetchone()))
    began = int(time.time() * 1000) - count
    step = max(1, (count + 1) // 1000)

    def copies():
        for number in range(count):
            row = dict(sample)
            # As the program makes ids: the millisecond, then the version and the variant.
            head = ((began + number) << 16) | 0x7000 | (number & 0xFFF)
            row["id"] = head.to_bytes(8, "big") + (0x8000000000000000 | number).to_bytes(8, "big")
            row["key"] = f"customer-{number % 5000}"
            row["created_at"] = (began + number) * 1000
            row["due_at"] = sample["due_at"] + number * 1000
            if number % step == 0:
                row["topic"] = "rare"
            yield [row[column] for column in columns]

    with storage:
        marks = ", ".join("?" * len(columns))
        storage.executemany(f"INSERT INTO {TABLE} ({', '.join(columns)}) VALUES ({marks})", copies())
        storage.execute(
            "UPDATE punctual_count SET count = count + ? WHERE queue = ? AND state = 0", (count, sample["queue"])
        )
    storage.close()


main(sys.argv[1], int(sys.argv[2]))
