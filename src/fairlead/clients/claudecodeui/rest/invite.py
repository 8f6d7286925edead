"""The page that accepts an invitation: takes name and password, and stores the token where the app looks for it.

The unmodified app has no field for an invitation, so the link opens this page of Fairlead on the same origin. The code
is in the fragment, which reaches no server and no log; a program that only previews links does not use the code up.
Pure.
"""

import base64
import hashlib
from typing import Final

from fairlead.model.web.requests import Response

PATH: Final = "/invite"

_STYLE: Final = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
body { max-width: 22rem; margin: 12vh auto; padding: 0 1rem }
label { display: block; margin: 1rem 0 .25rem }
input, button { width: 100%; box-sizing: border-box; padding: .5rem; font: inherit }
button { margin-top: 1.5rem }
"""

_SCRIPT: Final = """
const form = document.querySelector('form'), output = document.querySelector('[role=status]');
form.addEventListener('submit', async event => {
  event.preventDefault();
  const [username, password, again] = ['username', 'password', 'again'].map(name => form.elements[name].value);
  if (password !== again) { output.textContent = 'The two passwords differ.'; return; }
  form.elements.go.disabled = true;
  output.textContent = 'Creating the account ...';
  try {
    const response = await fetch('api/auth/register', {
      method: 'POST',
      headers: {'Content-Type': 'application/json'},
      body: JSON.stringify({username, password, invitation: location.hash.slice(1)}),
    });
    const reply = await response.json();
    if (!response.ok) throw new Error(reply.error);
    localStorage.setItem('auth-token', reply.token);
    history.replaceState(null, '', location.pathname);
    form.hidden = true;
    output.textContent = 'Welcome, ' + reply.user.username + '. You are signed in: ';
    const link = document.createElement('a');
    link.href = './';
    link.textContent = 'open the app';
    output.append(link);
  } catch (error) {
    output.textContent = error.message;
    form.elements.go.disabled = false;
  }
});
"""

_BODY: Final = f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Invitation</title>
<style>{_STYLE}</style>
<h1>You are invited</h1>
<p>Choose a name and a password for signing in.</p>
<form>
<label for="username">Name</label>
<input id="username" name="username" autocomplete="username" autocapitalize="none" required>
<label for="password">Password, at least 8 characters</label>
<input id="password" name="password" type="password" autocomplete="new-password" minlength="8" required>
<label for="again">The same password again</label>
<input id="again" name="again" type="password" autocomplete="new-password" required>
<button name="go">Create the account</button>
</form>
<p role="status"></p>
<script>{_SCRIPT}</script>
</html>
"""


def _allowed(text: str) -> str:
    """The content security policy source that allows exactly this text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


_POLICY: Final = (
    f"default-src 'none'; script-src {_allowed(_SCRIPT)}; style-src {_allowed(_STYLE)}; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

PAGE: Final = Response(
    body=_BODY.encode(), content_type="text/html; charset=utf-8", headers=(("content-security-policy", _POLICY),)
)
