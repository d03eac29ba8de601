// Sets otplib up with otpauth URIs, as an authenticator app. Reads [{uri, time, code}] from standard input: code is the code of the URI's
// secret at a time in seconds. Prints for each what otplib read from the URI, whether it accepts the code, and a URI, a secret and a code of
// its own for the same account and time.
import { createGuardrails, generateSecret, generateSync, generateURI, verifySync } from 'otplib'
import { parse } from '@otplib/uri'
import { text } from 'node:stream/consumers'

// Cardea accepts imported secrets of these sizes.
const guardrails = createGuardrails({ MIN_SECRET_BYTES: 10, MAX_SECRET_BYTES: 128 })

console.log(JSON.stringify(JSON.parse(await text(process.stdin)).map(({ uri, time, code }) => {
  const { type, label, params: { issuer, ...params } } = parse(uri)
  const own = generateSecret({ length: 20 })
  return {
    type, label, issuer, ...params,
    accepted: verifySync({ ...params, token: code, epoch: time, guardrails }).valid,
    code: generateSync({ ...params, epoch: time, guardrails }),
    ownURI: generateURI({ ...params, issuer, label: label.slice(issuer.length + 1), secret: own }),
    ownSecret: own,
    ownCode: generateSync({ ...params, secret: own, epoch: time }),
  }
})))
