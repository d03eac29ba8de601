// Verifies with jose the user's token that a tool got, as an API in TypeScript does, and prints its claims; and checks
// that it is refused for another audience, and under another key.
import { createLocalJWKSet, exportJWK, generateKeyPair, jwtVerify } from 'jose'

const { TOKEN, KEYS, ISSUER, AUDIENCE, NOW } = process.env
const options = { issuer: ISSUER, audience: AUDIENCE, currentDate: new Date(NOW), requiredClaims: ['exp', 'iat', 'jti', 'sub', 'act'] }
const keys = JSON.parse(KEYS)

async function refusal(set, options) {
  try {
    await jwtVerify(TOKEN, createLocalJWKSet(set), options)
    return ''
  } catch (error) {
    return error.code
  }
}

const { payload, protectedHeader } = await jwtVerify(TOKEN, createLocalJWKSet(keys), options)
const other = await exportJWK((await generateKeyPair(protectedHeader.alg)).publicKey)
console.log(JSON.stringify({
  claims: payload,
  type: protectedHeader.typ,
  otherAudience: await refusal(keys, { ...options, audience: 'https://else.example' }),
  later: await refusal(keys, { ...options, currentDate: new Date(Date.parse(NOW) + 61_000) }),
  otherKey: await refusal({ keys: [{ ...other, kid: protectedHeader.kid, alg: protectedHeader.alg }] }, options),
}))
