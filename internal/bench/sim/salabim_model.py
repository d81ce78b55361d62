# The scenario of weft's bench sim, case packets, in salabim: a sender, two
# paths with a queue, a bottleneck and a delay, acknowledgements that come back,
# and LowRTT: the path of the shorter round trip that has room in its window.
# Simpler than weft's: windows are fixed, nothing is lost, round trips are known.
# Prints one JSON object: packets delivered, and the seconds of CPU that took.
import json
import sys
import time

import salabim as sim

PACKET_BITS = 1500 * 8
PATHS = [(200e6, 0.010, 400), (50e6, 0.050, 450)]  # bit/s, delay, window


class Path(sim.Component):
    def setup(self, rate, one_way, window):
        self.service = PACKET_BITS / rate
        self.one_way = one_way
        self.window = window
        self.round_trip = 2 * one_way + self.service
        self.in_flight = 0
        self.waiting = 0

    def send(self):
        self.in_flight += 1
        self.waiting += 1
        if self.ispassive():
            self.activate()

    def process(self):
        while True:
            while self.waiting == 0:
                yield self.passivate()
            yield self.hold(self.service)
            self.waiting -= 1
            Packet(path=self)


class Packet(sim.Component):
    def setup(self, path):
        self.path = path

    def process(self):
        yield self.hold(self.path.one_way)
        sender.delivered += 1
        yield self.hold(self.path.one_way)
        self.path.in_flight -= 1
        if sender.ispassive():
            sender.activate()


class Sender(sim.Component):
    def setup(self):
        self.delivered = 0

    def process(self):
        while True:
            best = None
            for p in paths:
                if p.in_flight < p.window and (best is None or p.round_trip < best.round_trip):
                    best = p
            if best is None:
                yield self.passivate()
            else:
                best.send()


env = sim.Environment(trace=False, yieldless=False, random_seed=1)
paths = [Path(rate=r, one_way=d, window=w) for r, d, w in PATHS]
sender = Sender()
begin = time.process_time()
env.run(till=float(sys.argv[1]))
print(json.dumps({"delivered": sender.delivered, "seconds": time.process_time() - begin}))
