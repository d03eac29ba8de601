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
      var digits = input.value.replace(/[^0-9]/g, "").slice(0, 6);
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
      navigator.clipboard.writeText(document.getElementById(place.dataset.copy).textContent).then(function () {
        button.textContent = place.dataset.done;
      });
    });
    place.appendChild(button);
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
