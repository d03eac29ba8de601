// Resources: the active resources with their conditions, and how to change them where they are declared.
import { badge, field, h, table } from "./dom.js";
import { moment, t } from "./text.js";
import { empty, fill } from "./state.js";
import { pages, pageSize } from "./pager.js";
import { manifest } from "./manifests.js";

const kinds = ["IdentityDeployment", "RateLimitScheme", "APIAuthApp", "APIKey", "MembershipRole", "B2BSettings", "OAuthApp", "OAuthScope", "OAuthClient", "JWTTemplate", "AITool", "AIAgent", "Connection", "Directory", "WebhookEndpoint"];

export function resources({ ask }) {
  const place = h("div", { class: "stack" });
  const kind = h("select", null, h("option", { value: "" }, t("resources.every")), kinds.map((name) => h("option", { value: name }, name)));
  const show = (offset) => fill(place, () => ask("GET", "/resources", { query: { kind: kind.value, limit: pageSize, offset }, needs: "resources:read" }), (list) => [
    list.note && h("p", { class: "card notice", role: "status" }, list.note),
    list.data.length === 0 && list.offset === 0 ? h("div", { class: "card" }, empty(t("resources.none")))
      : h("ul", { class: "resources" }, list.data.map((resource) => h("li", { class: "card" }, entry(resource)))),
    pages(list, show),
  ]);
  kind.addEventListener("change", () => show(0));
  show(0);
  return [h("div", { class: "filters" }, field(t("resources.kind"), kind)), h("p", { class: "hint faint" }, t("resources.hint")), place];
}

// ready returns the condition that summarizes the others.
function ready(resource) {
  if (resource.conditions === null) {
    return badge("plain", t("common.unknown"));
  }
  const condition = resource.conditions.find((c) => c.type === "Ready");
  return condition?.status === "True" ? badge("good", t("resources.ready")) : badge("bad", condition?.reason ?? t("resources.unready"));
}

function entry(r) {
  const behind = r.live_generation !== null && r.live_generation > r.generation;
  return h("details", null,
    h("summary", null, h("span", { class: "what" }, h("span", { class: "strong" }, r.name), " ", h("span", { class: "faint" }, r.kind)), ready(r), behind && badge("warn", t("resources.behind"))),
    h("div", { class: "stack" },
      h("p", { class: "faint" }, t("resources.generation", { generation: r.generation, live: r.live_generation ?? t("common.unknown") }), " ", t("common.updated"), ": ", moment(r.updated_at)),
      r.conditions === null ? h("p", null, t("resources.unread")) : r.conditions.length === 0 ? empty(t("resources.unconditioned")) : conditions(r),
      h("h2", null, t("resources.change")), h("p", { class: "faint" }, t("resources.declared")),
      code(t("resources.edit", r), `kubectl -n ${r.namespace} edit ${r.plural}.iam.cardea.dev ${r.name}`), code(t("resources.patch", r), manifest(r))));
}

const conditions = (r) => table(t("resources.conditions"), [
  { label: t("resources.condition"), class: "short", cell: (c) => h("code", null, c.type) },
  { label: t("common.state"), cell: (c) => badge(c.status === "True" ? "good" : c.status === "False" ? "bad" : "plain", c.status) },
  { label: t("resources.reason"), class: "short", cell: (c) => h("code", null, c.reason) },
  { label: t("resources.message"), cell: (c) => c.message },
  { label: t("people.since"), class: "short", cell: (c) => moment(c.last_transition_time) },
], r.conditions);

// code returns text with a copy button. Browsers allow copying only over TLS and on localhost: elsewhere there is no button.
export function code(label, text) {
  const button = navigator.clipboard && h("button", { type: "button", onclick: async () => {
    await navigator.clipboard.writeText(text);
    button.textContent = t("common.copied");
  } }, t("common.copy"));
  return h("div", { class: "code" }, h("pre", { tabindex: "0", role: "region", "aria-label": label }, h("code", null, text)), button);
}
