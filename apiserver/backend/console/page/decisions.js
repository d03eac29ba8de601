// Decisions: how many requests each rule of each rate-limit scheme allowed and denied, read every two seconds while the view is visible.
import { card, h, svg, table } from "./dom.js";
import { clock, moment, number, t } from "./text.js";
import { empty, fill } from "./state.js";

const every = 2000;

export function decisions({ ask, signal }) {
  const place = h("div", { class: "stack" });
  const pause = h("button", { type: "button", "aria-pressed": "false" }, t("decisions.pause"));
  const status = h("span", { class: "faint" });
  let before = new Map();
  let timer = 0;

  const look = (quiet) => fill(place, () => ask("GET", "/decisions/summary", { needs: "decisions:read" }), (summary) => {
    const shown = show(summary, before);
    before = counts(summary);
    status.textContent = t("decisions.at", { time: clock(new Date()) });
    return shown;
  }, { quiet });
  const paused = () => pause.getAttribute("aria-pressed") === "true";
  const tick = async () => {
    if (!paused() && !document.hidden && !place.querySelector("[role=alert]")) {
      await look(true);
    }
    if (!signal.aborted) {
      timer = setTimeout(tick, every);
    }
  };
  pause.addEventListener("click", () => {
    pause.setAttribute("aria-pressed", String(!paused()));
    pause.textContent = paused() ? t("decisions.resume") : t("decisions.pause");
  });
  signal.addEventListener("abort", () => clearTimeout(timer));
  look(false).then(() => { timer = setTimeout(tick, signal.aborted ? 0 : every); });
  return [h("div", { class: "bar" }, status, pause), place];
}

const name = (scheme, rule) => [scheme.slug, rule.rule, rule.mode, rule.endpoints].join(" ");
const counts = (summary) => new Map(summary.schemes.flatMap((s) => s.rules.map((r) => [name(s, r), r])));

function show(summary, before) {
  const note = h("p", { class: "hint faint" }, t("decisions.note"), " ", moment(summary.since));
  if (summary.schemes.length === 0) {
    return [note, h("div", { class: "card" }, empty(t("decisions.none")))];
  }
  return [note, summary.schemes.map((scheme) => {
    const grown = (rule, what) => {
      const more = rule[what] - (before.get(name(scheme, rule))?.[what] ?? rule[what]);
      return more > 0 ? h("span", { class: "faint" }, " +" + number(more)) : null;
    };
    return card(null, h("h2", null, scheme.name, " ", h("code", { class: "faint" }, scheme.slug)), table(scheme.name, [
      { label: t("decisions.rule"), class: "short", cell: (r) => h("code", null, r.rule) },
      { label: t("decisions.mode"), class: "short", cell: (r) => h("code", null, r.mode) },
      { label: t("decisions.endpoints"), cell: (r) => r.endpoints.map((e) => h("code", { class: "item" }, e)) },
      { label: t("decisions.allowed"), cell: (r) => [number(r.allowed), grown(r, "allowed")], class: "number" },
      { label: t("decisions.denied"), cell: (r) => [number(r.denied), grown(r, "denied")], class: "number" },
      { label: t("decisions.share"), cell: share },
    ], scheme.rules));
  })];
}

// share draws the share of a rule's decisions that denied the request.
function share(rule) {
  const all = rule.allowed + rule.denied;
  const part = all === 0 ? 0 : rule.denied / all;
  const text = all === 0 ? t("decisions.unused") : t("decisions.part", { percent: number(Math.round(part * 1000) / 10) });
  return h("span", { class: "share" },
    svg("svg", { viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
      svg("rect", { class: "rest", width: 100, height: 8 }), svg("rect", { class: "part", width: part * 100, height: 8 })),
    h("span", null, text));
}
