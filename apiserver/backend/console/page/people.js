// Users: search, show, disable, sign out, delete.
import { badge, card, facts, h, table } from "./dom.js";
import { path } from "./api.js";
import { moment, t } from "./text.js";
import { empty, fill } from "./state.js";
import { announce, confirm } from "./dialog.js";
import { factors } from "./factors.js";
import { pages, pageSize, search } from "./pager.js";

const nameOf = (user) => [user.first_name, user.last_name].filter(Boolean).join(" ");
const stateOf = (user) => (user.disabled ? badge("bad", t("people.disabled")) : badge("good", t("people.enabled")));

export function people({ ask }) {
  const place = h("div");
  let wanted = "";
  const show = (offset) => fill(place, () => ask("GET", "/users", { query: { search: wanted, limit: pageSize, offset }, needs: "users:read" }), (list) => {
    if (list.data.length === 0 && list.offset === 0) {
      return empty(wanted ? t("people.unfound", { search: wanted }) : t("people.none"));
    }
    return [table(t("nav.people"), [
      { label: t("people.person"), cell: (u) => h("a", { href: "#/people/" + u.id }, nameOf(u) || u.email || u.id) },
      { label: t("people.email"), cell: (u) => u.email },
      { label: t("common.state"), class: "short", cell: stateOf },
      { label: t("common.created"), class: "short", cell: (u) => moment(u.created_at) },
    ], list.data), pages(list, show)];
  });
  show(0);
  return [search(t("people.search"), t("people.hint"), (text) => { wanted = text; show(0); }), h("section", { class: "card" }, place)];
}

export function person({ ask, id, heading }) {
  const place = h("div", { class: "stack" });
  const target = path`/users/${id}`;
  const show = () => fill(place, () => ask("GET", target, { needs: "users:read" }), (user) => {
    const name = nameOf(user) || user.email || user.id;
    heading.textContent = name;
    document.title = name + " · Cardea";
    return [about(user), actions(user), factors({ ask, user, again }), memberships(user), sessions(user)];
  });

  const about = (user) => card(null, facts([
    [t("common.state"), stateOf(user)], [t("people.email"), user.email || t("common.none")], [t("common.id"), h("code", null, user.id)],
    [t("people.phones"), user.phone_numbers.length === 0 ? t("common.none")
      : user.phone_numbers.map((p) => h("div", null, p.phone_number, " ", p.primary && badge("plain", t("people.primary")), " ", !p.verified && badge("warn", t("people.unverified"))))],
    [t("common.created"), moment(user.created_at)], [t("common.updated"), moment(user.updated_at)],
    [t("nav.audit"), h("a", { href: "#/audit?object=" + encodeURIComponent("user:" + user.id) }, t("people.audit"))],
    [t("nav.calls"), h("a", { href: "#/calls?user_id=" + user.id }, t("people.calls"))],
  ]));

  const memberships = (user) => card(t("people.organizations"), user.organization_memberships.length === 0 ? empty(t("people.memberless"))
    : table(t("people.organizations"), [
      { label: t("organizations.name"), cell: (m) => m.organization.name },
      { label: t("people.role"), class: "short", cell: (m) => m.role?.name ?? t("common.none") },
      { label: t("people.since"), class: "short", cell: (m) => moment(m.created_at) },
    ], user.organization_memberships));

  const sessions = () => {
    const list = h("div");
    fill(list, () => ask("GET", target + "/sessions", { needs: "users:read" }), (found) => (found.data.length === 0 ? empty(t("people.signedout"))
      : table(t("people.sessions"), [
        { label: t("people.browser"), cell: (s) => s.user_agent || t("common.unknown") },
        { label: t("common.address"), cell: (s) => s.ip_address },
        { label: t("overview.method"), class: "short", cell: (s) => h("code", null, s.method) },
        { label: t("people.level"), class: "short", cell: (s) => t("level." + s.level) },
        { label: t("people.signedin"), class: "short", cell: (s) => moment(s.created_at) },
        { label: t("people.active"), class: "short", cell: (s) => moment(s.last_active_at) },
      ], found.data)));
    return card(t("people.sessions"), list);
  };

  // again shows the user again after a change.
  const again = async () => {
    await show();
    heading.focus();
  };

  // does asks for confirmation, acts, announces the result, and shows the user again.
  const does = async (said, options) => {
    if (await confirm(options)) {
      announce(said());
      await again();
    }
  };

  const actions = (user) => {
    const name = user.email || user.id;
    let ended = 0;
    return h("div", { class: "actions" },
      user.disabled
        ? h("button", { type: "button", onclick: () => does(() => t("people.enable.done"), {
          title: t("people.enable"), text: t("people.enable.text", { name }), label: t("people.enable"),
          act: () => ask("PATCH", target, { body: { disabled: false }, needs: "users:write" }),
        }) }, t("people.enable"))
        : h("button", { type: "button", onclick: () => does(() => t("people.disable.done"), {
          title: t("people.disable"), text: t("people.disable.text", { name }), label: t("people.disable"), danger: true,
          act: () => ask("PATCH", target, { body: { disabled: true }, needs: "users:write" }),
        }) }, t("people.disable")),
      h("button", { type: "button", onclick: () => does(() => t("people.revoke.done", { count: ended }), {
        title: t("people.revoke"), text: t("people.revoke.text", { name }), label: t("people.revoke"),
        act: async () => { ended = (await ask("POST", target + "/sessions/revoke-all", { needs: "users:write" })).revoked; },
      }) }, t("people.revoke")),
      h("button", { type: "button", class: "danger", onclick: async () => {
        const gone = await confirm({
          title: t("people.delete"), text: t("people.delete.text", { name }), label: t("people.delete"), danger: true, type: name,
          act: () => ask("DELETE", target, { needs: "users:write" }),
        });
        if (gone) {
          announce(t("people.delete.done", { name }));
          location.hash = "#/people";
        }
      } }, t("people.delete")));
  };

  show();
  return [h("p", null, h("a", { href: "#/people" }, t("people.back"))), place];
}
