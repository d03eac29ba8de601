// Agents: their MCP servers with tools, and the numbers of their calls.
import { badge, card, facts, h, newID, table } from "./dom.js";
import { path } from "./api.js";
import { day, number, t } from "./text.js";
import { empty, fill } from "./state.js";
import { codes, state } from "./apps.js";
import { dayLength, today } from "./overview.js";
import { pages, pageSize, search } from "./pager.js";

export function agents({ ask }) {
  const place = h("div");
  let wanted = "";
  const show = (offset) => fill(place, () => ask("GET", "/ai/mcp-servers", { query: { search: wanted, limit: pageSize, offset }, needs: "ai_agents:read" }), (list) => {
    if (list.data.length === 0 && list.offset === 0) {
      return empty(wanted ? t("agents.unfound", { search: wanted }) : t("agents.none"));
    }
    return [table(t("nav.agents"), [
      { label: t("agents.agent"), cell: (a) => [h("a", { href: path`#/agents/${a.id}` }, a.title), h("p", null, h("code", { class: "faint" }, a.name))] },
      { label: t("common.state"), class: "short", cell: (a) => state(a.is_active) },
      { label: t("agents.url"), cell: (a) => address(a) },
      { label: t("agents.tools"), class: "number", cell: (a) => number(a.tool_count) },
    ], list.data), pages(list, show)];
  });
  show(0);
  return [search(t("agents.search"), t("agents.hint"), (text) => { wanted = text; show(0); }), h("section", { class: "card" }, place)];
}

const address = (a) => (a.url ? h("code", null, a.url) : t("agents.hostless"));

export function agent({ ask, id, heading }) {
  const place = h("div", { class: "stack" });
  const target = path`/ai/agents/${id}`;
  fill(place, () => ask("GET", target + "/mcp", { needs: "ai_agents:read" }), (a) => {
    heading.textContent = a.title;
    document.title = a.title + " · Cardea";
    return [about(a), card(t("agents.tools"), a.tools.length === 0 ? empty(t("agents.toolless")) : tools(a.tools)), numbers(ask, target)];
  });
  return [h("p", null, h("a", { href: "#/agents" }, t("agents.back"))), place];
}

const about = (a) => card(null, a.description && h("p", null, a.description), facts([
  [t("common.state"), state(a.is_active)], [t("agents.name"), h("code", null, a.name)], [t("agents.url"), address(a)], [t("common.id"), h("code", null, a.id)],
  [t("agents.permissions"), codes(a.permissions)],
  [t("nav.calls"), h("a", { href: "#/calls?agent_id=" + a.id }, t("agents.calls"))],
  [t("nav.approvals"), h("a", { href: "#/approvals?agent_id=" + a.id }, t("agents.approvals"))],
]));

const tools = (list) => table(t("agents.tools"), [
  { label: t("agents.tool"), cell: (o) => [h("span", { class: "strong" }, o.title), h("p", null, h("code", { class: "faint" }, o.name))] },
  { label: t("agents.type"), class: "short", cell: (o) => h("code", null, o.type) },
  { label: t("agents.request"), cell: (o) => (o.host ? h("code", null, o.method + " " + o.host) : t("common.none")) },
  { label: t("agents.approval"), class: "short", cell: (o) => (o.requires_user_approval ? badge("warn", t("agents.needed")) : t("agents.unneeded")) },
  { label: t("agents.reads"), class: "short", cell: (o) => (o.read_only ? t("common.yes") : t("common.no")) },
  { label: t("agents.permissions"), cell: (o) => codes(o.permissions) },
  { label: t("common.state"), class: "short", cell: (o) => (o.callable ? badge("good", t("agents.callable")) : badge("bad", o.is_active ? t("agents.uncallable") : t("apps.inactive"))) },
], list);

// numbers returns the choice of a period up to the end of today, UTC, and the numbers of the agent's calls in it.
function numbers(ask, target) {
  const shown = h("div", { class: "stack" });
  const label = newID();
  const periods = [1, 7, 30, 90];
  const buttons = periods.map((days) => h("button", { type: "button", "aria-pressed": "false", onclick: () => choose(days) }, t("overview.days." + days)));
  const instant = (at) => new Date(at).toISOString().slice(0, 19) + "Z";
  function choose(days) {
    buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(periods[i] === days)));
    const to = today() + dayLength;
    fill(shown, () => ask("GET", target + "/analytics", { query: { from: instant(to - days * dayLength), to: instant(to) }, needs: "analytics:read" }), summary);
  }
  choose(7);
  return [
    h("section", { class: "card", "aria-labelledby": label }, h("h2", { id: label }, t("agents.numbers")),
      h("div", { class: "choices", role: "group", "aria-label": t("overview.presets") }, buttons), h("p", { class: "hint faint" }, t("overview.utc"))),
    shown,
  ];
}

function summary(s) {
  const tile = (name, value) => h("li", { class: "card" }, h("p", { class: "faint" }, t("agents.count." + name)), h("p", { class: "value", "data-number": name }, number(value)));
  return [
    h("ul", { class: "numbers" },
      tile("calls", s.calls), tile("failed", s.failed), tile("denied", s.denied), tile("rate_limited", s.rate_limited),
      ["requested", "approved", "denied", "expired"].map((name) => tile("approvals_" + name, s.approvals[name]))),
    card(t("agents.called"), s.tools.length === 0 ? empty(t("agents.idle")) : table(t("agents.called"), [
      { label: t("agents.tool"), cell: (o) => h("code", null, o.name) },
      { label: t("agents.count.calls"), class: "number", cell: (o) => number(o.calls) },
      { label: t("agents.count.failed"), class: "number", cell: (o) => number(o.failed) },
      { label: t("agents.half"), class: "number", cell: (o) => number(o.p50_ms) },
      { label: t("agents.most"), class: "number", cell: (o) => number(o.p95_ms) },
    ], s.tools)),
    card(t("overview.daily"), h("div", { class: "scrolled", tabindex: "0", role: "region", "aria-label": t("overview.daily") }, table(t("overview.daily"), [
      { label: t("overview.day"), cell: (d) => day(d.day) },
      { label: t("agents.count.calls"), class: "number", cell: (d) => number(d.calls) },
      { label: t("agents.count.failed"), class: "number", cell: (d) => number(d.failed) },
    ], s.daily.toReversed()))),
  ];
}
