# Serves SQS on the loopback address; see sqs.rs. The emulator answers in several threads and has no lock:
# two polls may be given the same message, and one that is sent while another is deleted may vanish. So one
# call at a time touches its queues, and a poll that waits looks again and again.
import sys
import threading
import time

from moto.server import main
from moto.sqs.models import SQSBackend

LOOK_EVERY = 0.1
lock = threading.RLock()


def locked(call):
    def run(*arguments, **named):
        with lock:
            return call(*arguments, **named)

    return run


take = locked(SQSBackend.receive_message)


def receive(self, queue_name, count, wait_seconds_timeout, *rest, **named):
    until = time.monotonic() + (wait_seconds_timeout or 0)
    while True:
        found = take(self, queue_name, count, 0, *rest, **named)
        left = until - time.monotonic()
        if found or left <= 0:
            return found
        self.get_queue(queue_name).wait_for_messages(min(left, LOOK_EVERY))


for name in (
    "create_queue",
    "delete_queue",
    "send_message",
    "send_message_batch",
    "delete_message",
    "delete_message_batch",
    "change_message_visibility",
    "change_message_visibility_batch",
):
    setattr(SQSBackend, name, locked(getattr(SQSBackend, name)))
SQSBackend.receive_message = receive
main(["-H", "127.0.0.1", "-p", sys.argv[1]])
