// OAuth apps: their scopes, clients and grants. Clients that no resource declares can be disabled and enabled, and grants can be revoked.
import { badge, card, field, h, newID, table } from "./dom.js";
import { path } from "./api.js";
import { moment, t } from "./text.js";
import { empty, fill } from "./state.js";
import { announce, confirm } from "./dialog.js";
import { pageSize } from "./pager.js";
import { further } from "./keys.js";

export const codes = (list) => (list.length === 0 ? t("common.none") : list.map((text) => h("code", { class: "item" }, text)));

export const state = (active) => (active ? badge("good", t("apps.active")) : badge("bad", t("apps.inactive")));

export function apps({ ask, query }) {
  const place = h("div", { class: "stack" });
  fill(place, () => ask("GET", "/oauth/apps", { needs: "oauth_apps:read" }), (list) =>
    list.apps.length === 0 ? h("div", { class: "card" }, empty(t("apps.none"))) : ofApps(list.apps.toSorted((a, b) => a.name.localeCompare(b.name))));

  function ofApps(found) {
    const chosen = h("select", null, found.map((a) => h("option", { value: a.slug }, a.is_active ? a.name : t("keys.inactiveapp", { name: a.name }))));
    const user = h("input", { type: "text", inputmode: "numeric", autocomplete: "off", spellcheck: "false", value: query.get("user") ?? "" });
    const client = h("input", { type: "text", autocomplete: "off", spellcheck: "false" });
    const [scopes, clients, grants] = [h("div"), h("div"), h("div")];
    const heading = h("h2", { id: newID(), tabindex: "-1" }, t("apps.grants"));
    const root = () => path`/oauth/apps/${chosen.value}`;

    const showScopes = () => {
      const app = found.find((a) => a.slug === chosen.value);
      scopes.replaceChildren(
        h("p", null, state(app.is_active), " ", app.allow_dynamic_client_registration ? badge("plain", t("apps.registers")) : null),
        app.scope_definitions.length === 0 ? empty(t("apps.scopeless")) : table(t("apps.scopes"), [
          { label: t("apps.scope"), class: "short", cell: (s) => h("code", null, s.scope) },
          { label: t("apps.display"), cell: (s) => [h("span", { class: "strong" }, s.display_name), s.description && h("p", { class: "faint" }, s.description)] },
          { label: t("apps.permissions"), cell: (s) => codes([s.organization_permission, s.workspace_permission].filter(Boolean)) },
          { label: t("common.state"), class: "short", cell: (s) => (s.archived ? badge("bad", t("apps.archived")) : badge("good", t("apps.offered"))) },
        ], app.scope_definitions));
    };

    const showClients = (cursor) => fill(clients, () => ask("GET", root() + "/clients", { query: { limit: pageSize, cursor }, needs: "oauth_clients:read" }), (list) =>
      (list.clients.length === 0 && !cursor ? empty(t("apps.clientless")) : [clientRows(list.clients), further(list, showClients, cursor)]));
    const clientRows = (list) => table(t("apps.clients"), [
      { label: t("apps.client"), cell: (c) => [h("span", { class: "strong" }, c.client_name), h("p", null, h("code", { class: "faint" }, c.client_id))] },
      { label: t("keys.source"), class: "short", cell: (c) => [badge("plain", t("apps.source." + c.source)), c.resource && h("p", null, h("code", { class: "faint" }, c.resource))] },
      { label: t("apps.ways"), cell: (c) => codes([c.client_auth_method, ...c.grant_types]) },
      { label: t("apps.redirects"), cell: (c) => codes(c.redirect_uris) },
      { label: t("common.state"), class: "short", cell: (c) => state(c.is_active) },
      { label: t("common.actions"), class: "short", cell: (c) => h("div", { class: "actions" },
        h("button", { type: "button", "aria-label": t("apps.grants.of", { name: c.client_name }), onclick: () => {
          client.value = c.client_id;
          showGrants();
          heading.focus();
        } }, t("apps.grants.show")),
        c.source !== "declared" && h("button", { type: "button", class: c.is_active ? "danger" : null, "aria-label": c.is_active ? t("apps.disable.of", { name: c.client_name }) : t("apps.enable.of", { name: c.client_name }),
          onclick: () => turn(c) }, c.is_active ? t("apps.disable") : t("apps.enable"))) },
    ], list);
    const turn = async (c) => {
      const name = c.client_name;
      const done = await confirm({
        title: c.is_active ? t("apps.disable") : t("apps.enable"), label: c.is_active ? t("apps.disable") : t("apps.enable"), danger: c.is_active,
        text: c.is_active ? t("apps.disable.text", { name }) : t("apps.enable.text", { name }),
        act: () => ask("PATCH", root() + path`/clients/${c.client_id}`, { body: { is_active: !c.is_active }, needs: "oauth_clients:write" }),
      });
      if (done) {
        announce(c.is_active ? t("apps.disable.done", { name }) : t("apps.enable.done", { name }));
        await showClients();
        chosen.focus();
      }
    };

    const showGrants = (cursor) => fill(grants, () => ask("GET", root() + "/grants", {
      query: { limit: pageSize, cursor, user_id: user.value.trim(), client_id: client.value.trim() }, needs: "oauth_clients:read",
    }), (list) => (list.grants.length === 0 && !cursor ? empty(t("apps.grantless")) : [grantRows(list.grants), further(list, showGrants, cursor)]));
    const grantRows = (list) => table(t("apps.grants"), [
      { label: t("apps.user"), class: "short", cell: (g) => h("a", { href: path`#/people/${g.granted_by_user_id}` }, h("code", null, g.granted_by_user_id)) },
      { label: t("apps.client"), cell: (g) => h("code", null, g.oauth_client_id) },
      { label: t("apps.scopes"), cell: (g) => codes(g.scopes) },
      { label: t("apps.organization"), class: "short", cell: (g) => (g.organization_id ? h("code", null, g.organization_id) : t("common.none")) },
      { label: t("apps.granted"), class: "short", cell: (g) => moment(g.granted_at) },
      { label: t("common.actions"), class: "short", cell: (g) => h("button", { type: "button", class: "danger", "aria-label": t("apps.revoke.of", { user: g.granted_by_user_id, client: g.oauth_client_id }),
        onclick: () => revoke(g) }, t("keys.revoke")) },
    ], list);
    const revoke = async (g) => {
      const of = { user: g.granted_by_user_id, client: g.oauth_client_id };
      const done = await confirm({
        title: t("apps.revoke.title"), text: t("apps.revoke.text", of), label: t("keys.revoke"), danger: true,
        act: () => ask("POST", root() + path`/grants/${g.id}/revoke`, { needs: "oauth_clients:write" }),
      });
      if (done) {
        announce(t("apps.revoke.done"));
        await showGrants();
        heading.focus();
      }
    };

    const show = () => { showScopes(); showClients(); showGrants(); };
    chosen.addEventListener("change", () => { client.value = ""; show(); });
    user.addEventListener("change", () => showGrants());
    client.addEventListener("change", () => showGrants());
    show();
    return [
      h("div", { class: "filters" }, field(t("keys.app"), chosen)),
      card(t("apps.scopes"), scopes), card(t("apps.clients"), clients),
      h("section", { class: "card", "aria-labelledby": heading.id }, heading,
        h("div", { class: "filters" }, field(t("apps.user"), user), field(t("apps.client.id"), client)), grants),
    ];
  }
  return place;
}
