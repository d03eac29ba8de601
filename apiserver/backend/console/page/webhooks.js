// The webhook endpoints with how they go; one endpoint with its deliveries and replays; one delivery with its requests.
import { badge, card, facts, field, h, table } from "./dom.js";
import { path } from "./api.js";
import { moment, number, t } from "./text.js";
import { empty, fill } from "./state.js";
import { announce, confirm } from "./dialog.js";
import { further } from "./keys.js";
import { pages, pageSize } from "./pager.js";
import { instant } from "./overview.js";
import { code } from "./resources.js";

const reads = "webhooks:read";
const writes = "webhooks:write";
const statuses = ["pending", "delivered", "failed", "skipped"];

// state returns how an endpoint goes.
function state(e) {
  if (!e.is_active) {
    return badge("plain", t("webhooks.inactive"));
  }
  return badge({ delivering: "good", failing: "warn" }[e.state] ?? "bad", t("webhooks.state." + e.state));
}

const outcome = (d) => badge({ delivered: "good", pending: "plain", skipped: "warn" }[d.status] ?? "bad", t("webhooks.status." + d.status));
const coded = (value) => (value === null || value === "" ? t("common.none") : h("code", null, value));
// behind is how many events an endpoint has not read.
const behind = (e) => (e.position === null ? t("common.unknown") : number(Math.max(0, Number(e.last_sequence) - Number(e.position))));

export function webhooks({ ask }) {
  const place = h("div");
  const show = (offset = 0) => fill(place, () => ask("GET", "/webhooks/endpoints", { needs: reads, query: { limit: pageSize, offset } }), (list) =>
    (list.total === 0 ? empty(t("webhooks.none")) : [rows(list.data), pages(list, show)]));
  const rows = (endpoints) => table(t("nav.webhooks"), [
    { label: t("webhooks.name"), cell: (e) => h("a", { href: path`#/webhooks/${e.id}` }, e.name) },
    { label: t("webhooks.url"), cell: (e) => h("code", null, e.url) },
    { label: t("common.state"), class: "short", cell: state },
    { label: t("webhooks.success"), class: "short", cell: (e) => moment(e.last_success_at) },
    { label: t("webhooks.behind"), class: "number", cell: behind },
  ], endpoints);
  show();
  return h("section", { class: "card" }, place);
}

export function webhook({ ask, id, heading }) {
  const target = path`/webhooks/endpoints/${id}`;
  const head = h("div", { class: "stack" });
  const shown = () => fill(head, () => ask("GET", target, { needs: reads }), (e) => {
    heading.textContent = e.name;
    document.title = e.name + " · Cardea";
    return card(null, facts([
      [t("common.state"), state(e)], [t("common.id"), coded(e.id)], [t("webhooks.url"), coded(e.url)],
      [t("webhooks.types"), e.types.map((name) => h("code", { class: "item" }, name))],
      [t("webhooks.success"), moment(e.last_success_at)], [t("webhooks.failing"), moment(e.failing_since)],
      [t("webhooks.disabled"), e.disabled_at ? [moment(e.disabled_at), " ", t("webhooks.reason." + e.disabled_reason.toLowerCase())] : t("common.none")],
      [t("webhooks.position"), coded(e.position)], [t("webhooks.last"), coded(e.last_sequence)],
    ]), h("div", { class: "actions" },
      h("button", { type: "button", onclick: () => tries(e) }, t("webhooks.test")),
      h("button", { type: "button", onclick: () => replay(e) }, t("webhooks.replay")),
      e.state === "disabled" && h("button", { type: "button", class: "primary", onclick: () => reactivate(e) }, t("webhooks.reactivate"))));
  });
  const sent = deliveries({ ask, target });
  const again = replays({ ask, target });

  const tries = async (e) => {
    const name = h("input", { type: "text", autocomplete: "off", spellcheck: "false", value: "user.created" });
    let found;
    const done = await confirm({
      title: t("webhooks.test"), text: t("webhooks.test.text", { name: e.name }), label: t("webhooks.test.send"), input: field(t("webhooks.event"), name),
      act: async () => { found = await ask("POST", target + "/test", { needs: writes, body: { event_name: name.value.trim() } }); },
    });
    if (done) {
      announce(found.success ? t("webhooks.test.done", { ms: number(found.response_time_ms) }) : t("webhooks.test.failed", { error: found.error }));
    }
  };
  const replay = async (e) => {
    const since = h("input", { type: "datetime-local", step: "1", max: "9999-12-31T23:59:59", required: true });
    const status = h("select", null, ["failed", "all"].map((one) => h("option", { value: one }, t("webhooks.replay." + one))));
    let begun;
    const done = await confirm({
      title: t("webhooks.replay"), text: t("webhooks.replay.text", { name: e.name }), label: t("webhooks.replay"),
      input: [field(t("audit.since"), since), field(t("webhooks.replay.of"), status)],
      act: async () => { begun = await ask("POST", target + "/replay", { needs: writes, body: { start_date: since.value && instant(since.value), status: status.value } }); },
    });
    if (done) {
      announce(t("webhooks.replay.done", { id: begun.task_id }));
      await again.show();
    }
  };
  const reactivate = async (e) => {
    const skip = h("input", { type: "checkbox", id: "skip-backlog" });
    const done = await confirm({
      title: t("webhooks.reactivate"), text: t("webhooks.reactivate.text", { name: e.name }), label: t("webhooks.reactivate"),
      input: h("div", { class: "check" }, skip, h("label", { for: skip.id }, t("webhooks.skip"))),
      act: () => ask("POST", target + "/reactivate", { needs: writes, body: { skip_backlog: skip.checked } }),
    });
    if (done) {
      announce(t("webhooks.reactivate.done", { name: e.name }));
      await shown();
    }
  };

  shown();
  sent.show();
  again.show();
  return [h("p", null, h("a", { href: "#/webhooks" }, t("webhooks.back"))), head, sent.part, again.part];
}

// deliveries lists the deliveries of an endpoint.
function deliveries({ ask, target }) {
  const place = h("div");
  const status = h("select", null, h("option", { value: "" }, t("calls.every")), statuses.map((name) => h("option", { value: name }, t("webhooks.status." + name))));
  const event = h("input", { type: "text", autocomplete: "off", spellcheck: "false" });
  const show = (cursor) => fill(place, () => ask("GET", target + "/deliveries", { needs: reads, query: { limit: pageSize, cursor, status: status.value, event_name: event.value.trim() } }), (list) =>
    (list.data.length === 0 && !list.has_more && !cursor ? empty(t("webhooks.undelivered")) : [rows(list.data), further(list, show, cursor)]));
  const rows = (found) => table(t("webhooks.deliveries"), [
    { label: t("common.when"), class: "short", cell: (d) => h("a", { href: path`#/deliveries/${d.delivery_id}` }, moment(d.timestamp)) },
    { label: t("webhooks.event"), cell: (d) => h("code", null, d.event_name) },
    { label: t("webhooks.sequence"), class: "number", cell: (d) => d.sequence },
    { label: t("common.state"), class: "short", cell: outcome },
    { label: t("webhooks.code"), class: "short", cell: (d) => coded(d.http_status_code) },
    { label: t("webhooks.attempts"), class: "number", cell: (d) => t("webhooks.of", { number: number(d.attempt_number), most: number(d.max_attempts) }) },
    { label: t("webhooks.next"), class: "short", cell: (d) => moment(d.next_attempt_at) },
  ], found);
  status.addEventListener("change", () => show());
  event.addEventListener("change", () => show());
  return { show, part: card(t("webhooks.deliveries"), h("div", { class: "filters" }, field(t("common.state"), status), field(t("webhooks.event"), event, "user.created")), place) };
}

// replays lists the replays of an endpoint.
function replays({ ask, target }) {
  const place = h("div");
  const show = (cursor) => fill(place, () => ask("GET", target + "/replays", { needs: reads, query: { limit: pageSize, cursor } }), (list) =>
    (list.data.length === 0 && !cursor ? empty(t("webhooks.unreplayed")) : [rows(list.data), further(list, show, cursor)]));
  const open = (r) => r.status === "pending" || r.status === "running";
  const rows = (found) => table(t("webhooks.replays"), [
    { label: t("common.when"), class: "short", cell: (r) => moment(r.created_at) },
    { label: t("common.id"), class: "short", cell: (r) => h("code", null, r.task_id) },
    { label: t("common.state"), class: "short", cell: (r) => badge(r.status === "completed" ? "good" : open(r) ? "plain" : "warn", t("webhooks.task." + r.status)) },
    { label: t("webhooks.processed"), class: "number", cell: (r) => t("webhooks.of", { number: number(r.processed), most: number(r.total_count) }) },
    { label: t("webhooks.status.failed"), class: "number", cell: (r) => number(r.failed_count) },
    { label: t("common.actions"), class: "short", cell: (r) => open(r)
      && h("button", { type: "button", class: "danger", "aria-label": t("webhooks.cancel.of", { id: r.task_id }), onclick: () => cancel(r) }, t("webhooks.cancel")) },
  ], found);
  const cancel = async (r) => {
    const done = await confirm({
      title: t("webhooks.cancel"), text: t("webhooks.cancel.text", { id: r.task_id }), label: t("webhooks.cancel"), danger: true,
      act: () => ask("DELETE", target + path`/replays/${r.task_id}`, { needs: writes }),
    });
    if (done) {
      announce(t("webhooks.cancel.done", { id: r.task_id }));
      await show();
    }
  };
  return { show, part: card(t("webhooks.replays"), place) };
}

export function webhookDelivery({ ask, id, heading }) {
  const place = h("div", { class: "stack" });
  fill(place, () => ask("GET", path`/webhooks/deliveries/${id}`, { needs: reads }), (d) => {
    heading.textContent = t("webhooks.delivery", { event: d.event_name });
    document.title = d.event_name + " · Cardea";
    return [
      card(null, facts([
        [t("common.state"), outcome(d)], [t("common.when"), moment(d.timestamp)], [t("common.id"), coded(d.delivery_id)],
        [t("webhooks.endpoint"), h("a", { href: path`#/webhooks/${d.endpoint_id}` }, h("code", null, d.endpoint_id))],
        [t("webhooks.event.id"), coded(d.event_id)], [t("webhooks.sequence"), coded(d.sequence)], [t("webhooks.next"), moment(d.next_attempt_at)],
        [t("webhooks.task"), coded(d.replay_task_id)],
      ])),
      card(t("webhooks.attempts"), d.attempts.length === 0 ? empty(t("webhooks.untried")) : table(t("webhooks.attempts"), [
        { label: t("common.when"), class: "short", cell: (a) => moment(a.at) },
        { label: t("webhooks.code"), class: "short", cell: (a) => coded(a.http_status_code) },
        { label: t("calls.latency"), class: "number", cell: (a) => number(a.response_time_ms) },
        { label: t("webhooks.error"), cell: (a) => a.error || t("common.none") },
        { label: t("webhooks.response"), cell: (a) => coded(a.response_excerpt) },
      ], d.attempts)),
      card(t("webhooks.payload"), d.payload === null ? empty(t("webhooks.forgotten")) : code(t("webhooks.payload"), JSON.stringify(d.payload, null, 2))),
    ];
  });
  return [h("p", null, h("a", { href: "#/webhooks" }, t("webhooks.back"))), place];
}
