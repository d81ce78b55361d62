// Colours that people with any colour vision tell apart (M. Okabe, K. Ito,
// "Color Universal Design", 2008); streams also have numbers, and paths names.
const streams = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a500"];
const paths = { light: ["#4f5b66", "#8e9ba8", "#6d83b5", "#b3a58c"], dark: ["#c3ccd4", "#7d8a96", "#93a8d8", "#b5a384"] };

export const streamColour = (id) => streams[(id + streams.length - 1) % streams.length];

export const pathColour = (index) => {
  const set = matchMedia("(prefers-color-scheme: dark)").matches ? paths.dark : paths.light;
  return set[index % set.length];
};

// theme reads the stylesheet's colours, for what is drawn on a canvas.
export function theme() {
  const style = getComputedStyle(document.documentElement);
  const get = (name) => style.getPropertyValue("--" + name).trim();
  return { panel: get("panel"), ink: get("ink"), soft: get("soft"), line: get("line"), faint: get("faint"), bad: get("bad"), accent: get("accent") };
}
