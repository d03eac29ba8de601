// The second factors of a user: what there is, removal, temporary codes, reset.
import { badge, card, facts, field, h, table } from "./dom.js";
import { path } from "./api.js";
import { moment, t } from "./text.js";
import { empty, fill } from "./state.js";
import { announce, confirm } from "./dialog.js";

const needs = "user_factors:write";
// The lifetimes of a temporary code that can be chosen, in seconds.
const lifetimes = [600, 3600, 28800, 86400];

// factors returns the card of a user's second factors. again loads the whole page after a reset.
export function factors({ ask, user, again }) {
  const target = path`/users/${user.id}`;
  const name = user.email || user.id;
  const list = h("div", { class: "stack" });
  const made = h("div", { "aria-live": "polite" });
  const show = () => fill(list, () => ask("GET", target + "/second-factors", { needs: "user_factors:read" }), (found) => [
    facts([
      [t("factors.twostep"), found.two_step ? t("factors.on") : t("factors.off")], [t("factors.required"), t("level." + found.required)],
      [t("factors.recovery"), found.recovery_codes ? found.recovery_codes.left : t("common.none")],
    ]),
    rows(found),
    actions(),
  ]);
  const rows = (found) => {
    const all = [
      ...found.totp.map((f) => ({ ...f, kind: "totp", below: path`/second-factors/totp/${f.id}` })),
      ...found.passkeys.map((f) => ({ ...f, kind: "passkey", below: path`/passkeys/${f.id}` })),
      ...found.sms.map((f) => ({ ...f, kind: "sms", name: f.phone_number })),
    ];
    return all.length === 0 ? empty(t("factors.none")) : table(t("factors.title"), [
      { label: t("factors.kind"), class: "short", cell: (f) => t("factors.kind." + f.kind) },
      { label: t("factors.name"), cell: (f) => f.name },
      { label: t("common.state"), class: "short", cell: (f) => (f.usable ? badge("good", t("factors.usable")) : badge("warn", t("factors.unusable"))) },
      { label: t("common.created"), class: "short", cell: (f) => moment(f.created_at) },
      { label: t("factors.used"), class: "short", cell: (f) => (f.kind === "sms" ? t("common.unknown") : moment(f.last_used_at)) },
      { label: t("common.actions"), class: "short", cell: (f) => f.below && h("button", { type: "button", class: "danger", "aria-label": t("factors.remove.of", { name: f.name }), onclick: () => remove(f) }, t("factors.remove")) },
    ], all);
  };
  const actions = () => h("div", { class: "actions" },
    h("button", { type: "button", onclick: temporary }, t("factors.temporary")),
    h("button", { type: "button", class: "danger", onclick: reset }, t("factors.reset")));

  const remove = async (f) => {
    const done = await confirm({
      title: t("factors.remove"), text: t("factors.remove.text", { factor: f.name, name }), label: t("factors.remove"), danger: true,
      act: () => ask("DELETE", target + f.below, { needs }),
    });
    if (done) {
      announce(t("factors.remove.done", { factor: f.name }));
      await show();
      list.querySelector("button")?.focus();
    }
  };
  const temporary = async () => {
    const lifetime = h("select", null, lifetimes.map((seconds) => h("option", { value: seconds, selected: seconds === 3600 }, t("factors.lifetime." + seconds))));
    let code;
    const done = await confirm({
      title: t("factors.temporary"), text: t("factors.temporary.text", { name }), label: t("factors.temporary"), input: field(t("factors.lifetime"), lifetime),
      act: async () => { code = await ask("POST", target + "/temporary-code", { body: { lifetime_seconds: Number(lifetime.value) }, needs }); },
    });
    if (done) {
      made.replaceChildren(h("div", { class: "notice" }, h("p", { class: "strong" }, h("code", null, code.code)),
        h("p", null, t("factors.temporary.done"), " ", moment(code.expires_at))));
    }
  };
  const reset = async () => {
    const reason = h("input", { type: "text", maxlength: "500", autocomplete: "off" });
    let ended;
    const done = await confirm({
      title: t("factors.reset"), text: t("factors.reset.text", { name }), label: t("factors.reset"), danger: true, type: name, input: field(t("factors.reason"), reason),
      act: async () => { ended = await ask("POST", target + "/second-factors/reset", { body: reason.value.trim() ? { reason: reason.value.trim() } : {}, needs }); },
    });
    if (done) {
      announce(t("factors.reset.done", { removed: ended.removed, count: ended.sessions_revoked }));
      await again();
    }
  };

  show();
  return card(t("factors.title"), made, list);
}
