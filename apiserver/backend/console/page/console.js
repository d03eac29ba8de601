// The console: sign-in with an API key, and the views.
import { add, field, h, newID } from "./dom.js";
import { ask, keepForTab, keptForTab, Refused, signedIn, signIn, signOut } from "./api.js";
import { currentLanguage, languages, setLanguage, t } from "./text.js";
import { overview } from "./overview.js";
import { decisions } from "./decisions.js";
import { people, person } from "./people.js";
import { organizations } from "./organizations.js";
import { keys } from "./keys.js";
import { apps } from "./apps.js";
import { agent, agents } from "./agents.js";
import { call, calls } from "./calls.js";
import { approvals } from "./approvals.js";
import { webhook, webhookDelivery, webhooks } from "./webhooks.js";
import { resources } from "./resources.js";
import { audit } from "./audit.js";

// The views by the first part of their address, in the order of the menu. A view fills its element until its signal is aborted.
const views = { overview, decisions, people, organizations, keys, apps, agents, calls, approvals, webhooks, resources, audit };
// The views of one object, such as #/people/123.
const singles = { people: person, agents: agent, calls: call, webhooks: webhook, deliveries: webhookDelivery };
// The views in the menu to which the others belong.
const within = { deliveries: "webhooks" };

const root = document.getElementById("console");
let deployment = "";
let leave = new AbortController();

// parse splits the address, such as #/people/123?object=x.
function parse() {
  const [route, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, id] = route.split("/").map(decodeURIComponent);
  const menu = within[name] ?? name;
  return { name: menu in views ? menu : "overview", of: name, id, query: new URLSearchParams(query) };
}

function languageChoice() {
  const choice = h("select", { "aria-label": t("shell.language") }, languages.map(([tag, name]) => h("option", { value: tag, lang: tag, selected: tag === currentLanguage() }, name)));
  choice.addEventListener("change", () => {
    setLanguage(choice.value);
    signedIn() ? showShell() : showSignIn();
    root.querySelector("select").focus();
  });
  return choice;
}

// entered asks the API whether it accepts a key, and for the deployment's name. A key without the permission to read resources is also
// accepted.
async function entered() {
  try {
    const found = await ask("GET", "/resources", { query: { kind: "IdentityDeployment", limit: 1 }, needs: "resources:read" });
    deployment = found.data.map((d) => d.namespace + "/" + d.name)[0] ?? "";
  } catch (fault) {
    if (fault.status !== 403) {
      throw fault;
    }
    deployment = "";
  }
}

function showSignIn(problem) {
  leave.abort();
  document.title = t("signin.title");
  const typed = h("input", { type: "password", autocomplete: "off", autocapitalize: "none", spellcheck: "false", required: true });
  const keep = h("input", { type: "checkbox", id: newID(), "aria-describedby": "keep-hint" });
  const told = h("div", { class: "problem", role: "alert" }, problem);
  const go = h("button", { type: "submit", class: "primary" }, t("signin.go"));
  const form = h("form", { class: "card", novalidate: true },
    h("h1", null, t("signin.title")), h("p", { class: "faint" }, t("signin.text")),
    field(t("signin.key"), typed, t("signin.kept")),
    h("div", { class: "check" }, keep, h("label", { for: keep.id }, t("signin.keep"))), h("p", { class: "hint faint", id: "keep-hint" }, t("signin.keep.hint")), told, go);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const refuse = (text) => {
      signOut();
      told.replaceChildren(text);
      typed.setAttribute("aria-invalid", "true");
      typed.focus();
    };
    const value = typed.value.trim();
    if (!/^[\x21-\x7e]+$/.test(value)) {
      return refuse(value === "" ? t("signin.missing") : t("signin.malformed"));
    }
    go.disabled = true;
    signIn(value);
    try {
      await entered();
      typed.value = "";
      if (keep.checked) {
        keepForTab();
      }
      showShell();
    } catch (fault) {
      refuse(fault.status === 401 ? t("signin.unknown") : fault.status === 0 ? t("state.unreachable") : fault.message);
    } finally {
      go.disabled = false;
    }
  });
  root.replaceChildren(h("main", { class: "signin" }, h("p", { class: "brand" }, "Cardea"), form, h("div", { class: "tools" }, languageChoice())));
  typed.focus();
}

function showShell() {
  const list = h("ul", { id: newID() }, Object.keys(views).map((name) => h("li", null, h("a", { href: "#/" + name, "data-view": name }, t("nav." + name)))));
  const menu = h("button", { type: "button", class: "menu", "aria-expanded": "false", "aria-controls": list.id }, t("shell.menu"));
  const open = (yes) => menu.setAttribute("aria-expanded", String(yes));
  menu.addEventListener("click", () => open(menu.getAttribute("aria-expanded") !== "true"));
  list.addEventListener("click", () => open(false));
  const end = () => { signOut(); showSignIn(); };
  root.replaceChildren(
    h("a", { class: "skip", href: "#main", onclick: (event) => { event.preventDefault(); document.getElementById("main").focus(); } }, t("shell.skip")),
    h("header", null,
      h("p", { class: "brand" }, "Cardea", deployment && h("span", { class: "faint" }, deployment)), menu,
      h("nav", { "aria-label": t("shell.views") }, list),
      h("div", { class: "tools" }, h("a", { href: "/docs" }, t("shell.reference")), languageChoice(), h("button", { type: "button", onclick: end }, t("shell.signout")))),
    h("main", { id: "main", tabindex: "-1" }));
  route(false);
}

// route shows the view of the address. If the user navigated to it, its heading gets the focus.
function route(went = true) {
  const place = document.getElementById("main");
  if (place === null) {
    return; // not signed in yet
  }
  leave.abort();
  leave = new AbortController();
  const at = parse();
  for (const link of root.querySelectorAll("nav a")) {
    link.dataset.view === at.name ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current");
  }
  const heading = h("h1", { tabindex: "-1" }, t("nav." + at.name));
  place.replaceChildren(heading);
  document.title = t("nav." + at.name) + " · Cardea";
  const show = (at.id && singles[at.of]) || views[at.name];
  add(place, show({ ...at, heading, signal: leave.signal, ask: guarded(leave.signal) }));
  if (went) {
    heading.focus();
    scrollTo(0, 0);
  }
}

// guarded is ask for a view: its requests are aborted with the view, and a refused key ends the session.
function guarded(signal) {
  return async (method, target, options) => {
    try {
      return await ask(method, target, { signal, ...options });
    } catch (fault) {
      if (fault instanceof Refused && fault.status === 401 && signedIn() && !signal.aborted) {
        for (const dialog of document.querySelectorAll("dialog")) {
          dialog.close();
        }
        signOut();
        showSignIn(t("signin.ended"));
      }
      throw fault;
    }
  };
}

addEventListener("hashchange", () => route());
// A page that the browser restores from its cache has no key, unless the key is kept for the tab.
addEventListener("pageshow", (event) => {
  if (event.persisted && !keptForTab()) {
    signOut();
    showSignIn();
  }
});

// resume continues with the key that is kept for the tab. Only a refused key ends the session; the views show all other errors.
async function resume() {
  try {
    await entered();
  } catch (fault) {
    if (fault.status === 401) {
      signOut();
      return showSignIn(t("signin.ended"));
    }
  }
  showShell();
}

signedIn() ? resume() : showSignIn();
