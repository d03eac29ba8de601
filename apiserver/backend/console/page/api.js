// Requests to the backend API. The key is kept only in this module's memory, so that a reload forgets it. If the user chose to keep it for
// the tab, it is also in the tab's session storage, until the user signs out or closes the tab.

const place = "cardea-console-key";

// kept reads, writes or removes the key that is stored for the tab. A browser that blocks storage stores nothing.
function kept(change) {
  try {
    return change(sessionStorage) ?? null;
  } catch {
    return null;
  }
}

export const keptForTab = () => kept((tab) => tab.getItem(place)) !== null;

let key = kept((tab) => tab.getItem(place));

export const signedIn = () => key !== null;
export const signIn = (typed) => { key = typed; };
export const keepForTab = () => kept((tab) => tab.setItem(place, key));
export const signOut = () => {
  key = null;
  kept((tab) => tab.removeItem(place));
};

// Refused is an unsuccessful response, or a missing one (status 0).
export class Refused extends Error {
  constructor(status, message, requestID, permission) {
    super(message);
    this.status = status;
    this.requestID = requestID;
    // The permission that the key lacks, if that is why.
    this.permission = permission;
  }
}

// A request has an id from here, so that the page can show one even without a response.
function newRequestID() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

// path inserts values into a path, each as one segment: path`/users/${id}`.
export const path = (texts, ...parts) => texts.reduce((whole, text, i) => whole + encodeURIComponent(parts[i - 1]) + text);

// ask sends a request that needs a permission. It returns the response's body, or null if there is none.
export async function ask(method, target, { query, body, needs, signal } = {}) {
  const requestID = newRequestID();
  const sent = Object.entries(query ?? {}).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const url = target + (sent.length ? "?" + new URLSearchParams(sent) : "");
  const headers = { Accept: "application/json", Authorization: "Bearer " + key, "X-Request-Id": requestID };
  if (body !== undefined) {
    headers["Content-Type"] = "application/json";
  }
  let answer;
  let read;
  try {
    answer = await fetch(url, {
      method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "omit", cache: "no-store", redirect: "error", referrerPolicy: "no-referrer",
    });
    read = answer.status === 204 ? null : await answer.json();
  } catch (fault) {
    if (fault.name === "AbortError") {
      throw fault;
    }
    throw new Refused(answer?.status ?? 0, "", requestID);
  }
  if (!answer.ok) {
    const lacks = answer.status === 403 && needs && read.message.includes(needs);
    throw new Refused(answer.status, read.message, read.request_id, lacks ? needs : undefined);
  }
  return read;
}
