// Verifies requests of webhooks and reads their events. Reads [{secret, publicKey, headers, body}] from standard input: the body is the text
// that was sent, and either the secret or the public key (whpk_...) may be absent. Prints for each request what each verifier says, "" if it
// verifies, and the event that the package cloudevents reads, if the request has its media type:
// [{standardwebhooks, svix, ed25519, event or eventError}].
import { CloudEvent, HTTP } from 'cloudevents'
import { createPublicKey, verify } from 'node:crypto'
import { text } from 'node:stream/consumers'
import { Webhook } from 'standardwebhooks'
import { Webhook as SvixWebhook } from 'svix'

const outcome = (run) => {
  try {
    run()
    return ''
  } catch (error) {
    return String(error.message || error)
  }
}

// Neither package verifies v1a. These are the steps of docs/webhooks.md.
const verifyEd25519 = (publicKey, headers, body) => {
  const seconds = Number(headers['webhook-timestamp'])
  if (!(Math.abs(Date.now() / 1000 - seconds) <= 300)) throw new Error('the timestamp is more than five minutes away')
  const x = Buffer.from(publicKey.replace(/^whpk_/, ''), 'base64').toString('base64url')
  const key = createPublicKey({ format: 'jwk', key: { kty: 'OKP', crv: 'Ed25519', x } })
  const signed = Buffer.from(`${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`)
  const signatures = headers['webhook-signature'].split(' ').filter((one) => one.startsWith('v1a,'))
  if (!signatures.some((one) => verify(null, signed, key, Buffer.from(one.slice(4), 'base64')))) throw new Error('no signature verifies')
}

// HTTP.toEvent does not validate; the constructor does.
const readEvent = (headers, body) => {
  const read = HTTP.toEvent({ headers, body })
  if (!read.validate()) throw new Error('the event is not valid')
  return new CloudEvent({ ...read }, true).toJSON()
}

const requests = JSON.parse(await text(process.stdin))
const outcomes = requests.map(({ secret, publicKey, headers, body }) => {
  const said = {}
  if (secret) {
    said.standardwebhooks = outcome(() => new Webhook(secret).verify(body, headers))
    said.svix = outcome(() => new SvixWebhook(secret).verify(body, headers))
  }
  if (publicKey) said.ed25519 = outcome(() => verifyEd25519(publicKey, headers, body))
  if (headers['content-type']?.startsWith('application/cloudevents')) {
    said.eventError = outcome(() => { said.event = readEvent(headers, body) })
  }
  return said
})
console.log(JSON.stringify(outcomes))
