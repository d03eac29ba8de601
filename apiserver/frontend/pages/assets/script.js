// Improvements of the pages for browsers with scripts. All pages work without them.
(function () {
  "use strict";

  // Show a password while it is typed.
  document.querySelectorAll("input[data-show]").forEach(function (input) {
    var frame = document.createElement("div");
    frame.className = "reveal";
    input.parentNode.insertBefore(frame, input);
    frame.appendChild(input);
    var button = document.createElement("button");
    button.type = "button";
    button.textContent = input.dataset.show;
    button.setAttribute("aria-controls", input.id);
    button.addEventListener("click", function () {
      var hidden = input.type === "password";
      input.type = hidden ? "text" : "password";
      button.textContent = hidden ? input.dataset.hide : input.dataset.show;
      input.focus();
    });
    frame.appendChild(button);
    // Browsers and password managers must not store it as a text field.
    input.form.addEventListener("submit", function () { input.type = "password"; });
  });

  // Extract the digits of a code from pasted text.
  document.querySelectorAll('input[autocomplete="one-time-code"]').forEach(function (input) {
    input.addEventListener("input", function () {
      var digits = input.value.replace(/[^0-9]/g, "").slice(0, Number(input.dataset.digits || 6));
      if (digits !== input.value) {
        input.value = digits;
      }
    });
  });

  // Enable the button for another code after the wait.
  document.querySelectorAll("button[data-wait]").forEach(function (button) {
    var label = button.textContent;
    var end = Date.now() + Number(button.dataset.wait) * 1000;
    button.disabled = true;
    (function tick() {
      var left = Math.ceil((end - Date.now()) / 1000);
      if (left <= 0) {
        button.disabled = false;
        button.textContent = label;
        return;
      }
      button.textContent = button.dataset.waitText.replace("{n}", String(left));
      setTimeout(tick, 250);
    })();
  });

  // Submit a form only once.
  document.querySelectorAll("form").forEach(function (form) {
    form.addEventListener("submit", function (event) {
      if (form.hasAttribute("data-repeat")) {
        return; // the response is a file, and the page stays
      }
      if (form.dataset.sent) {
        event.preventDefault();
      }
      form.dataset.sent = "1";
    });
  });
  window.addEventListener("pageshow", function (event) {
    if (event.persisted) {
      location.reload(); // the cached page may be from before a sign-out
    }
  });

  // Copy a secret with a button.
  document.querySelectorAll("[data-copy]").forEach(function (place) {
    if (!navigator.clipboard) {
      return;
    }
    var button = document.createElement("button");
    button.type = "button";
    button.className = "small";
    button.textContent = place.dataset.label;
    button.addEventListener("click", function () {
      navigator.clipboard.writeText(document.getElementById(place.dataset.copy).textContent.trim()).then(function () {
        button.textContent = place.dataset.done;
      });
    });
    place.appendChild(button);
  });

  // Print a page with a button.
  document.querySelectorAll("[data-print]").forEach(function (place) {
    var button = document.createElement("button");
    button.type = "button";
    button.className = "small";
    button.textContent = place.dataset.print;
    button.addEventListener("click", function () { window.print(); });
    place.appendChild(button);
  });

  // Passkeys. The page has the options, and a form takes the credential: nothing is fetched. One request is pending at a
  // time, so the button aborts the request of the autofill.
  var passkeys = window.PublicKeyCredential;
  var able = passkeys && navigator.credentials && passkeys.parseRequestOptionsFromJSON && passkeys.parseCreationOptionsFromJSON;
  document.querySelectorAll("form[data-passkey]").forEach(function (form) {
    if (!able) {
      return;
    }
    var creates = form.dataset.passkey === "create";
    var options = JSON.parse(form.dataset.options);
    var button = form.querySelector("[data-start]");
    var message = form.querySelector("[data-message]");
    var unable = form.querySelector("[data-unable]");
    var pending = null;

    function ask(mediation) {
      if (pending) {
        pending.abort();
      }
      var own = new AbortController();
      pending = own;
      var request = { signal: own.signal };
      request.publicKey = creates ? passkeys.parseCreationOptionsFromJSON(options) : passkeys.parseRequestOptionsFromJSON(options);
      if (mediation) {
        request.mediation = mediation;
      }
      (creates ? navigator.credentials.create(request) : navigator.credentials.get(request)).then(function (credential) {
        form.elements.credential.value = JSON.stringify(credential);
        form.submit();
      }).catch(function (error) {
        if (pending !== own) {
          return; // a later request aborted this one
        }
        pending = null;
        button.disabled = false;
        if (mediation) {
          return;
        }
        // A user who cancels, and a device without a passkey, look alike. Neither is sent.
        message.textContent = error.name === "InvalidStateError" && message.dataset.exists || message.dataset.nothing;
        autofill();
      });
    }

    function autofill() {
      if (form.hasAttribute("data-autofill") && passkeys.isConditionalMediationAvailable) {
        passkeys.isConditionalMediationAvailable().then(function (available) {
          if (available && !pending) {
            ask("conditional");
          }
        });
      }
    }

    button.hidden = false;
    if (unable) {
      unable.hidden = true;
    }
    button.addEventListener("click", function () {
      message.textContent = "";
      button.disabled = true;
      ask();
    });
    form.addEventListener("submit", function (event) {
      event.preventDefault(); // Enter in the field of the name
      button.click();
    });
    autofill();

    // The challenge expires: load the page again while it is untouched.
    if (form.dataset.reload) {
      var touched = false;
      ["input", "keydown", "pointerdown"].forEach(function (kind) {
        document.addEventListener(kind, function () { touched = true; });
      });
      setTimeout(function () {
        if (!touched) {
          location.reload();
        }
      }, Number(form.dataset.reload) * 1000);
    }
  });

  // Show what is only for browsers with passkeys.
  document.querySelectorAll("[data-needs-passkeys]").forEach(function (part) { part.hidden = !able; });

  // Tell the browser which passkeys still exist.
  document.querySelectorAll("[data-signal]").forEach(function (signal) {
    var method = able && passkeys[signal.dataset.signal];
    if (method) {
      method.call(passkeys, JSON.parse(signal.dataset.with)).catch(function () {});
    }
  });

  // Close the menu with Escape, or with a click outside.
  document.querySelectorAll("details.menu").forEach(function (menu) {
    document.addEventListener("click", function (event) {
      if (!menu.contains(event.target)) {
        menu.open = false;
      }
    });
    menu.addEventListener("keydown", function (event) {
      if (event.key === "Escape" && menu.open) {
        menu.open = false;
        menu.querySelector("summary").focus();
      }
    });
  });
})();
