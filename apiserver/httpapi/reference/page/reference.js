// Shows an OpenAPI document with Swagger UI. The key entered at "Authorize" stays in this page's memory.
"use strict";

const place = document.getElementById("reference");

// Swagger UI selects its dark colors by a class, not by the user's preference.
const dark = matchMedia("(prefers-color-scheme: dark)");
const dress = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", dress);
dress();

// withPermissions adds the permission of an operation to its description: renderers do not show the extension that declares it.
function withPermissions(spec) {
  for (const path of Object.values(spec.paths)) {
    for (const operation of Object.values(path)) {
      const named = operation["x-cardea-permission"];
      if (named) {
        const needs = [].concat(named).map((name) => "`" + name + "`").join(" or ");
        operation.description = "Permission: " + needs + "\n\n" + (operation.description ?? "");
      }
    }
  }
  return spec;
}

// byPath groups operations by path, reads before writes.
const methods = ["get", "post", "put", "patch", "delete"];
function byPath(a, b) {
  return a.get("path").localeCompare(b.get("path")) || methods.indexOf(a.get("method")) - methods.indexOf(b.get("method"));
}

function say(text) {
  const line = document.createElement("p");
  line.className = "elsewhere";
  line.setAttribute("role", "alert");
  line.textContent = text;
  place.replaceChildren(line);
}

async function show() {
  const answer = await fetch(place.dataset.document, { headers: { Accept: "application/json" } });
  if (!answer.ok) {
    throw new Error("status " + answer.status);
  }
  const spec = withPermissions(await answer.json());
  place.replaceChildren();
  const tries = "try" in place.dataset;
  const reference = window.SwaggerUIBundle({
    spec,
    domNode: place,
    deepLinking: true,
    docExpansion: "list",
    defaultModelsExpandDepth: 0,
    defaultModelRendering: "example",
    displayRequestDuration: true,
    filter: true,
    operationsSorter: byPath,
    supportedSubmitMethods: tries ? ["get", "put", "post", "delete", "patch"] : [],
    validatorUrl: null,
  });
  // Swagger UI reads the address only once. This also follows links to operations on the page that is already open.
  addEventListener("hashchange", () => reference.layoutActions.parseDeepLinkHash(decodeURIComponent(location.hash)));
}

show().catch((fault) => say("The document could not be shown (" + fault.message + "). Reload to try again."));
