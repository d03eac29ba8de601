// Overview: the numbers of a period compared with the previous one, by day, and the newest sign-ups and sign-ins.
import { card, field, h, table } from "./dom.js";
import { change, day, moment, number, t } from "./text.js";
import { empty, fill } from "./state.js";
import { chart } from "./chart.js";

export const dayLength = 86400000;
export const today = () => Math.floor(Date.now() / dayLength) * dayLength;

// The preset periods, in days up to the end of today, UTC.
const presets = [1, 7, 30, 90, 365];

// local formats a time for a control of type datetime-local. The value is always UTC.
const local = (at) => new Date(at).toISOString().slice(0, 16);

// The time in the form of the API. The control omits zero seconds.
export const instant = (text) => (text.length === 16 ? text + ":00Z" : text + "Z");

export function overview({ ask }) {
  const from = h("input", { type: "datetime-local", step: "1", max: "9999-12-31T23:59:59" });
  const to = h("input", { type: "datetime-local", step: "1", max: "9999-12-31T23:59:59" });
  const problem = h("p", { class: "problem", role: "alert" });
  const place = h("div", { class: "stack", "aria-live": "off" });
  const buttons = presets.map((days) => h("button", { type: "button", "aria-pressed": "false", onclick: () => choose(days) }, t("overview.days." + days)));

  const press = (days) => buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(presets[i] === days)));
  const show = () => fill(place,
    () => ask("GET", "/analytics", { query: { from: instant(from.value), to: instant(to.value) }, needs: "analytics:read" }), summary);
  function choose(days) {
    press(days);
    problem.textContent = "";
    to.value = local(today() + dayLength);
    from.value = local(today() + dayLength - days * dayLength);
    show();
  }
  const form = h("form", { class: "period", novalidate: true }, field(t("overview.from"), from), field(t("overview.to"), to), h("button", { type: "submit", class: "primary" }, t("overview.show")));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    press(0);
    const bad = !from.value || !to.value ? t("overview.missing") : from.value >= to.value ? t("overview.order") : "";
    problem.textContent = bad;
    if (!bad) {
      show();
    }
  });
  choose(30);
  return [
    h("section", { class: "card", "aria-label": t("overview.period") }, h("div", { class: "choices", role: "group", "aria-label": t("overview.presets") }, buttons), form, problem,
      h("p", { class: "hint faint" }, t("overview.utc"))),
    place,
  ];
}

function summary(s) {
  return [
    h("ul", { class: "numbers" },
      tile("unique_signins", s.unique_signins, s.unique_signins_change), tile("signups", s.signups, s.signups_change),
      tile("organizations_created", s.organizations_created, s.organizations_created_change),
      tile("workspaces_created", s.workspaces_created, s.workspaces_created_change), tile("total_signups", s.total_signups)),
    card(t("overview.daily"), days(s.daily_metrics)),
    h("div", { class: "pair" },
      card(t("overview.recent.signups"), recent(s.recent_signups, "signed_up_at", t("overview.recent.signups"))),
      card(t("overview.recent.signins"), recent(s.recent_signins, "signed_in_at", t("overview.recent.signins")))),
  ];
}

// tile returns a number with its name and its change. Numbers of all time have no change.
function tile(name, value, changed) {
  const compared = changed === undefined ? null
    : changed === null ? h("p", { class: "faint" }, t("overview.incomparable"))
      : h("p", { class: changed > 0 ? "up" : changed < 0 ? "down" : "faint" }, h("span", { "aria-hidden": "true" }, changed > 0 ? "▲ " : changed < 0 ? "▼ " : ""), t("overview.change", { change: change(changed) }));
  return h("li", { class: "card" }, h("p", { class: "faint" }, t("overview." + name)), h("p", { class: "value", "data-number": name }, number(value)), compared);
}

function days(metrics) {
  if (metrics.every((m) => m.signins === 0 && m.signups === 0)) {
    return empty(t("overview.nothing"));
  }
  const rows = table(t("overview.daily"), [
    { label: t("overview.day"), cell: (m) => day(m.day) },
    { label: t("overview.signins"), cell: (m) => number(m.signins), class: "number" },
    { label: t("overview.signups"), cell: (m) => number(m.signups), class: "number" },
  ], [...metrics].reverse());
  return [chart(metrics), h("details", null, h("summary", null, t("overview.table")), h("div", { class: "scrolled", tabindex: "0", role: "region", "aria-label": t("overview.daily") }, rows))];
}

function recent(entries, at, caption) {
  if (entries.length === 0) {
    return empty(t("overview.none"));
  }
  return table(caption, [
    { label: t("people.person"), cell: (e) => h("a", { href: "#/people/" + e.user_id }, e.name || e.email || e.user_email || e.user_id) },
    { label: t("overview.method"), class: "short", cell: (e) => h("code", null, e.method) },
    { label: t("common.when"), class: "short", cell: (e) => moment(e[at]) },
  ], entries);
}
