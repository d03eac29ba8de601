// A chart of two lines by day: users who signed in, and sign-ups. The legend identifies the lines without color.
import { h, svg } from "./dom.js";
import { day, number, t } from "./text.js";

const height = 240;
const left = 44;
const right = 12;
const top = 12;
const bottom = 28;

// steps returns four or five round numbers, the last at least most.
function steps(most) {
  const rough = Math.max(most, 4) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  return Array.from({ length: Math.ceil(Math.max(most, 1) / step) + 1 }, (_, i) => i * step);
}

export function chart(metrics) {
  // About one unit per pixel, so that text has its normal size.
  const narrow = matchMedia("(max-width: 40rem)").matches;
  const width = narrow ? 320 : 720;
  const lines = steps(Math.max(...metrics.map((m) => Math.max(m.signins, m.signups))));
  const most = lines.at(-1);
  const x = (i) => left + (width - left - right) * (metrics.length === 1 ? 0.5 : i / (metrics.length - 1));
  const y = (value) => top + (height - top - bottom) * (1 - value / most);
  const points = (name) => metrics.map((m, i) => x(i).toFixed(1) + "," + y(m[name]).toFixed(1)).join(" ");
  const dots = (name) => (metrics.length > 45 ? [] : metrics.map((m, i) => svg("circle", { class: name, cx: x(i), cy: y(m[name]), r: metrics.length === 1 ? 4 : 2.5 })));
  const every = Math.ceil(metrics.length / (narrow ? 3 : 6));
  const names = metrics.flatMap((m, i) => (i % every === 0 ? [svg("text", { x: x(i), y: height - 8, "text-anchor": i === 0 && metrics.length > 1 ? "start" : "middle" }, day(m.day, "short"))] : []));
  const columns = metrics.map((m, i) => {
    const each = (width - left - right) / metrics.length;
    return svg("rect", { class: "column", x: left + i * each, y: top, width: each, height: height - top - bottom },
      svg("title", null, t("overview.point", { day: day(m.day), signins: number(m.signins), signups: number(m.signups) })));
  });
  const drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart", role: "img", "aria-label": t("overview.drawn", { from: day(metrics[0].day), to: day(metrics.at(-1).day), most: number(Math.max(...metrics.map((m) => m.signins))) }) },
    lines.map((value) => [svg("line", { class: "grid", x1: left, x2: width - right, y1: y(value), y2: y(value) }), svg("text", { x: left - 8, y: y(value) + 4, "text-anchor": "end" }, number(value))]),
    svg("polygon", { class: "signins area", points: `${x(0)},${y(0)} ${points("signins")} ${x(metrics.length - 1)},${y(0)}` }),
    svg("polyline", { class: "signins line", points: points("signins") }), svg("polyline", { class: "signups line", points: points("signups") }),
    dots("signins"), dots("signups"), names, columns);
  const legend = h("ul", { class: "legend" }, ["signins", "signups"].map((name) => h("li", { class: name }, t("overview." + name))));
  return [legend, drawing];
}
