// The recorded calls of agents' tools, newest first, and one call with all that its record has.
import { badge, card, facts, field, h, table } from "./dom.js";
import { path } from "./api.js";
import { moment, number, t } from "./text.js";
import { empty, fill } from "./state.js";
import { further } from "./keys.js";
import { pageSize } from "./pager.js";
import { instant } from "./overview.js";
import { code } from "./resources.js";

const outcomes = ["started", "succeeded", "failed", "timeout", "cancelled", "unknown", "accepted"];

// result returns how a call ended: the outcome of an allowed call, the decision on a refused one.
function result(c) {
  if (c.outcome === null) {
    return badge("bad", t("calls.decision." + c.decision));
  }
  return badge({ succeeded: "good", accepted: "good", started: "plain", cancelled: "warn" }[c.outcome] ?? "bad", t("calls.outcome." + c.outcome));
}

// input returns a text field of a filter with its value in the address.
export const input = (query, name) => h("input", { type: "text", autocomplete: "off", spellcheck: "false", value: query.get(name) ?? "" });

// userLink returns a link to the user of a call.
export const userLink = (id) => (id ? h("a", { href: path`#/people/${id}` }, h("code", null, id)) : t("common.none"));

export function calls({ ask, query }) {
  const place = h("div");
  const agent = input(query, "agent_id");
  const tool = input(query, "tool_id");
  const user = input(query, "user_id");
  const outcome = h("select", null, h("option", { value: "" }, t("calls.every")), outcomes.map((name) => h("option", { value: name }, t("calls.outcome." + name))));
  const since = h("input", { type: "datetime-local", step: "1", max: "9999-12-31T23:59:59" });
  const until = h("input", { type: "datetime-local", step: "1", max: "9999-12-31T23:59:59" });
  const show = (cursor) => fill(place, () => ask("GET", "/ai/tool-calls", { needs: "audit:read", query: {
    limit: pageSize, cursor, agent_id: agent.value.trim(), tool_id: tool.value.trim(), user_id: user.value.trim(), outcome: outcome.value,
    since: since.value && instant(since.value), until: until.value && instant(until.value),
  } }), (list) => (list.data.length === 0 && !cursor ? empty(t("calls.none")) : [rows(list.data), further(list, show, cursor)]));
  // only filters the list by the agent or the tool of a record.
  const only = (filter, of) => h("button", { type: "button", class: "link", title: t("audit.only"), onclick: () => { filter.value = of.id; show(); } }, of.name);
  const rows = (records) => table(t("nav.calls"), [
    { label: t("common.when"), class: "short", cell: (c) => h("a", { href: path`#/calls/${c.id}` }, moment(c.at)) },
    { label: t("agents.agent"), cell: (c) => only(agent, c.agent) },
    { label: t("agents.tool"), cell: (c) => only(tool, c.tool) },
    { label: t("calls.user"), class: "short", cell: (c) => userLink(c.user_id) },
    { label: t("calls.outcome"), class: "short", cell: result },
    { label: t("calls.code"), class: "short", cell: (c) => (c.code ? h("code", null, c.code) : t("common.none")) },
    { label: t("calls.latency"), class: "number", cell: (c) => number(c.latency_ms) },
  ], records);
  const clear = h("button", { type: "button", onclick: () => { form.reset(); agent.value = tool.value = user.value = ""; show(); } }, t("audit.clear"));
  const form = h("form", { class: "card filters", novalidate: true, "aria-label": t("audit.filters") },
    field(t("calls.agent.id"), agent), field(t("calls.tool.id"), tool), field(t("apps.user"), user), field(t("calls.outcome"), outcome),
    field(t("audit.since"), since), field(t("audit.until"), until),
    h("div", { class: "actions" }, h("button", { type: "submit", class: "primary" }, t("audit.show")), clear));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    show();
  });
  show();
  return [form, h("section", { class: "card" }, place)];
}

export function call({ ask, id, heading }) {
  const place = h("div", { class: "stack" });
  fill(place, () => ask("GET", path`/ai/tool-calls/${id}`, { needs: "audit:read" }), (c) => {
    heading.textContent = t("calls.of", { tool: c.tool.name });
    document.title = c.tool.name + " · Cardea";
    return [record(c), body(t("calls.arguments"), c.arguments), body(t("calls.result"), c.result)];
  });
  return [h("p", null, h("a", { href: "#/calls" }, t("calls.back"))), place];
}

function record(c) {
  const coded = (value) => (value === null || value === "" ? t("common.none") : h("code", null, value));
  return card(null, facts([
    [t("common.when"), moment(c.at)], [t("common.id"), coded(c.id)],
    [t("agents.agent"), h("a", { href: path`#/agents/${c.agent.id}` }, c.agent.name)],
    [t("agents.tool"), [c.tool.name, " ", coded(c.tool.id)]],
    [t("calls.decision"), t("calls.decision." + c.decision)],
    [t("calls.outcome"), c.outcome === null ? t("common.none") : result(c)],
    [t("calls.code"), coded(c.code)], [t("calls.status"), coded(c.upstream_status)],
    [t("calls.credential"), [t("calls.credential." + c.principal.type), " ", c.principal.type === "key" && c.principal.id
      ? h("a", { href: "#/audit?key_id=" + encodeURIComponent(c.principal.id), title: t("keys.audit") }, h("code", null, c.principal.id)) : coded(c.principal.id)]],
    [t("apps.client.id"), coded(c.client_id)], [t("calls.user"), userLink(c.user_id)],
    [t("apps.organization"), coded(c.organization_id)], [t("calls.workspace"), coded(c.workspace_id)], [t("common.address"), coded(c.ip_address)],
    [t("calls.approval"), coded(c.approval_id)], [t("calls.revision"), coded(c.revision)],
    [t("calls.latency"), number(c.latency_ms)], [t("calls.upstream"), number(c.upstream_ms)],
    [t("calls.sent"), number(c.bytes_out)], [t("calls.received"), number(c.bytes_in)], [t("calls.digest"), coded(c.arguments_digest)],
  ]));
}

// body returns the arguments or the result of a call, which are kept only if the tool keeps them.
const body = (title, value) => card(title, value === null ? empty(t("calls.unkept")) : code(title, JSON.stringify(value, null, 2)));
