// Lists that come in pages.
import { h } from "./dom.js";
import { number, t } from "./text.js";

export const pageSize = 25;

// pages are the buttons of a list that pages by offset, and which part of it is seen.
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

// search is a form with one field that calls go with what was typed.
export function search(label, hint, go) {
  const typed = h("input", { type: "search", autocomplete: "off", spellcheck: "false", "aria-label": label, placeholder: hint });
  const form = h("form", { role: "search", class: "search", novalidate: true }, typed, h("button", { type: "submit" }, t("list.search")));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    go(typed.value.trim());
  });
  return form;
}
