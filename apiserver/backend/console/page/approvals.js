// The approvals of agents' calls, newest first, without the arguments: only approvers see those.
import { badge, field, h, table } from "./dom.js";
import { moment, t } from "./text.js";
import { empty, fill } from "./state.js";
import { further } from "./keys.js";
import { pageSize } from "./pager.js";
import { input, userLink } from "./calls.js";

const kinds = { pending: "warn", approved: "good", denied: "bad", used: "good", expired: "plain", void: "plain" };

// decision returns when and by which user an approval was decided.
const decision = (a) => [h("p", { class: "faint" }, moment(a.decided_at)), a.decided_by && h("p", { class: "faint" }, t("approvals.by"), " ", userLink(a.decided_by))];

export function approvals({ ask, query }) {
  const place = h("div");
  const agent = input(query, "agent_id");
  const user = input(query, "user_id");
  const status = h("select", null, h("option", { value: "" }, t("approvals.every")), Object.keys(kinds).map((name) => h("option", { value: name }, t("approvals.status." + name))));
  const show = (cursor) => fill(place, () => ask("GET", "/ai/tool-approvals", {
    needs: "ai_agents:read", query: { limit: pageSize, cursor, status: status.value, agent_id: agent.value.trim(), user_id: user.value.trim() },
  }), (list) => [list.data.length > 0 ? rows(list.data) : empty(list.has_more ? t("approvals.further") : t("approvals.none")), further(list, show, cursor)]);
  const rows = (list) => table(t("nav.approvals"), [
    { label: t("approvals.asked"), class: "short", cell: (a) => [moment(a.requested_at), h("p", { class: "faint" }, t("approvals.ends"), " ", moment(a.expires_at))] },
    { label: t("common.state"), class: "short", cell: (a) => [badge(kinds[a.status], t("approvals.status." + a.status)), a.decided_at && decision(a)] },
    { label: t("agents.agent"), cell: (a) => h("button", { type: "button", class: "link", title: t("audit.only"), onclick: () => { agent.value = a.agent.id; show(); } }, a.agent.name) },
    { label: t("agents.tool"), cell: (a) => [h("span", { class: "strong" }, a.tool.title), a.tool.host && h("p", null, h("code", { class: "faint" }, a.tool.method + " " + a.tool.host))] },
    { label: t("approvals.client"), cell: (a) => (a.client ? [a.client.name, " ", !a.client.verified && badge("warn", t("people.unverified"))] : t("calls.credential.session")) },
    { label: t("approvals.for"), class: "short", cell: (a) => [userLink(a.user_id), a.organization_id && h("p", null, h("code", { class: "faint" }, a.organization_id))] },
  ], list);
  status.addEventListener("change", () => show());
  agent.addEventListener("change", () => show());
  user.addEventListener("change", () => show());
  show();
  return [
    h("div", { class: "filters" }, field(t("common.state"), status), field(t("calls.agent.id"), agent), field(t("apps.user"), user)),
    h("section", { class: "card" }, place),
  ];
}
