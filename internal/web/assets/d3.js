// D3 as an ES module. d3.min.js is the published file, untouched: loaded as a
// module, it puts d3 into globalThis. Pages import by name from here.
import "./d3.min.js";

export const {
  area, axisBottom, axisLeft, bisectRight, curveStepAfter, format, line, max,
  scaleBand, scaleLinear, scalePow, select, stack,
} = globalThis.d3;
