// Organizations: search, and the number of members.
import { h, table } from "./dom.js";
import { moment, number, t } from "./text.js";
import { empty, fill } from "./state.js";
import { pages, pageSize, search } from "./pager.js";

export function organizations({ ask }) {
  const place = h("div");
  let wanted = "";
  const show = (offset) => fill(place, () => ask("GET", "/organizations", { query: { search: wanted, limit: pageSize, offset }, needs: "organizations:read" }), (list) => {
    if (list.data.length === 0 && list.offset === 0) {
      return empty(wanted ? t("organizations.unfound", { search: wanted }) : t("organizations.none"));
    }
    return [table(t("nav.organizations"), [
      { label: t("organizations.name"), cell: (o) => [h("span", { class: "strong" }, o.name), o.description && h("p", { class: "faint" }, o.description)] },
      { label: t("organizations.slug"), cell: (o) => h("code", null, o.slug) },
      { label: t("common.id"), cell: (o) => h("code", null, o.id) },
      { label: t("organizations.members"), cell: (o) => number(o.members), class: "number" },
      { label: t("common.created"), class: "short", cell: (o) => moment(o.created_at) },
    ], list.data), pages(list, show)];
  });
  show(0);
  return [search(t("organizations.search"), t("organizations.hint"), (text) => { wanted = text; show(0); }), h("section", { class: "card" }, place)];
}
