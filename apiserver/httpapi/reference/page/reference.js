// Shows an OpenAPI document by Swagger UI. The key that "Authorize" asks for stays in this page's memory.
"use strict";

const place = document.getElementById("reference");

// Swagger UI has its dark colours behind a class, not behind the reader's preference.
const dark = matchMedia("(prefers-color-scheme: dark)");
const dress = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", dress);
dress();

// withPermissions puts what an operation needs where readers see it: it is an extension that renderers do not know.
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

// byPath puts a path's operations together, reading before writing.
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
  // Swagger UI reads the address once. A link to an operation is followed on the page that shows it as well.
  addEventListener("hashchange", () => reference.layoutActions.parseDeepLinkHash(decodeURIComponent(location.hash)));
}

show().catch((fault) => say("The document could not be shown (" + fault.message + "). Reload to try again."));
