// For weft bench sim: how long is the work of one picture? From the call of
// requestAnimationFrame to when the browser has computed style and layout and
// painted, which is when it comes to read its messages again.

const pictures = 600;

export function measure(page) {
  const { clock } = page, channel = new MessageChannel(), times = [];
  clock.pause();
  const step = (clock.to - clock.from) / (pictures + 1);
  let begun = 0;
  channel.port1.onmessage = () => {
    times.push(performance.now() - begun);
    if (times.length < pictures) return requestAnimationFrame(next);
    fetch("/measured", { method: "POST", body: JSON.stringify({ times, streams: most(page), paths: page.shown[0].trace.paths.length }) });
  };
  const next = () => {
    begun = performance.now();
    page.draw((clock.t = clock.from + step * (times.length + 1)), false);
    channel.port2.postMessage(0);
  };
  requestAnimationFrame(next);
}

// most gives how many streams were open at the same time.
function most(page) {
  let largest = 0;
  for (const s of page.shown) for (const x of s.trace.streams) largest = Math.max(largest, s.trace.completed(x.arrive).open);
  return largest;
}
