// Lists with pages.
import { h } from "./dom.js";
import { number, t } from "./text.js";

export const pageSize = 25;

// pages returns the buttons of a list with offsets, and which part of it is shown.
export function pages(list, go) {
  if (list.total <= list.limit && list.offset === 0) {
    return h("p", { class: "hint faint" }, t("list.total", { total: number(list.total) }));
  }
  const last = list.offset + list.data.length;
  return h("nav", { class: "pages", "aria-label": t("list.pages") },
    h("button", { type: "button", disabled: list.offset === 0, onclick: () => go(Math.max(0, list.offset - list.limit)) }, t("list.newer")),
    h("span", { class: "faint" }, t("list.range", { from: number(list.data.length ? list.offset + 1 : 0), to: number(last), total: number(list.total) })),
    h("button", { type: "button", disabled: !list.has_more, onclick: () => go(list.offset + list.limit) }, t("list.older")));
}

// search returns a form with one field, which calls go with the typed text.
export function search(label, hint, go) {
  const typed = h("input", { type: "search", autocomplete: "off", spellcheck: "false", "aria-label": label, placeholder: hint });
  const form = h("form", { role: "search", class: "search", novalidate: true }, typed, h("button", { type: "submit" }, t("list.search")));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    go(typed.value.trim());
  });
  return form;
}
