// Evaluates responses as node-saml does, and signs and encrypts as xml-crypto and xml-encryption do. Reads {now, request, acs, sp, idp, idpCert,
// idpKey, spKey, spCert, responses: {name: base64}, unsigned, posts: [base64], redirects: [url]} from standard input.
// Prints {decisions: {name: subject or error}, signed: {name: base64}, posts: [bool], redirects: [bool]}.
import { SAML } from '@node-saml/node-saml'
import { createVerify } from 'node:crypto'
import { text } from 'node:stream/consumers'
import { SignedXml } from 'xml-crypto'
import xmlenc from 'xml-encryption'

const input = JSON.parse(await text(process.stdin))
const now = Date.parse(input.now)
const RealDate = Date
globalThis.Date = class extends RealDate {
  constructor(...values) {
    if (values.length > 0) super(...values)
    else super(now)
  }

  static now() {
    return now
  }
}

const saml = new SAML({
  idpCert: input.idpCert,
  idpIssuer: input.idp,
  issuer: input.sp,
  audience: input.sp,
  callbackUrl: input.acs,
  decryptionPvk: input.spKey,
  wantAssertionsSigned: false,
  wantAuthnResponseSigned: false,
  acceptedClockSkewMs: 60_000,
  validateInResponseTo: 'always',
  cacheProvider: {
    saveAsync: async () => null,
    getAsync: async (id) => (id === input.request ? new Date().toISOString() : null),
    removeAsync: async () => null,
  },
})

const decisions = {}
for (const [name, response] of Object.entries(input.responses)) {
  try {
    const { profile } = await saml.validatePostResponseAsync({ SAMLResponse: response })
    decisions[name] = { subject: profile?.nameID ?? '' }
  } catch (error) {
    decisions[name] = { error: String(error.message) }
  }
}

const exclusive = 'http://www.w3.org/2001/10/xml-exc-c14n#'

// sign signs the element with a name.
function sign(xml, element) {
  const signature = new SignedXml({
    privateKey: input.idpKey,
    publicCert: input.idpCert,
    signatureAlgorithm: 'http://www.w3.org/2001/04/xmldsig-more#rsa-sha256',
    canonicalizationAlgorithm: exclusive,
  })
  const xpath = `//*[local-name(.)='${element}']`
  signature.addReference({
    xpath,
    digestAlgorithm: 'http://www.w3.org/2001/04/xmlenc#sha256',
    transforms: ['http://www.w3.org/2000/09/xmldsig#enveloped-signature', exclusive],
  })
  signature.computeSignature(xml, { location: { reference: `${xpath}/*[local-name(.)='Issuer']`, action: 'after' } })
  return signature.getSignedXml()
}

// encrypt encrypts the assertion of a response.
function encrypt(xml, encryptionAlgorithm, keyEncryptionDigest) {
  const assertion = /<saml:Assertion.*<\/saml:Assertion>/s.exec(xml)[0]
  const options = {
    rsa_pub: input.spCert,
    pem: input.spCert,
    encryptionAlgorithm,
    keyEncryptionAlgorithm: 'http://www.w3.org/2001/04/xmlenc#rsa-oaep-mgf1p',
    keyEncryptionDigest,
  }
  return new Promise((resolve, reject) =>
    xmlenc.encrypt(assertion, options, (error, encrypted) =>
      error ? reject(error) : resolve(xml.replace(assertion, () => `<saml:EncryptedAssertion>${encrypted}</saml:EncryptedAssertion>`)),
    ),
  )
}

const both = sign(sign(input.unsigned, 'Assertion'), 'Response')
const assertion = sign(input.unsigned, 'Assertion')
const signed = { assertion, response: sign(input.unsigned, 'Response'), both }
for (const [name, algorithm] of Object.entries({
  'AES-256-GCM': 'http://www.w3.org/2009/xmlenc11#aes256-gcm',
  'AES-128-GCM': 'http://www.w3.org/2009/xmlenc11#aes128-gcm',
  'AES-256-CBC': 'http://www.w3.org/2001/04/xmlenc#aes256-cbc',
  'AES-128-CBC': 'http://www.w3.org/2001/04/xmlenc#aes128-cbc',
})) {
  signed[name] = await encrypt(assertion, algorithm, 'sha1')
  signed[`${name}, response signed`] = sign(await encrypt(assertion, algorithm, 'sha1'), 'Response')
}

// verifyPost verifies the signature of a message by HTTP-POST.
function verifyPost(message) {
  const xml = Buffer.from(message, 'base64').toString()
  const signature = new SignedXml({ publicCert: input.spCert, getCertFromKeyInfo: () => null })
  signature.loadSignature(/<ds:Signature.*<\/ds:Signature>/s.exec(xml)[0])
  return signature.checkSignature(xml)
}

// verifyRedirect verifies the signature of a query by HTTP-Redirect.
function verifyRedirect(url) {
  const query = url.slice(url.indexOf('SAMLRequest='))
  const [content, signature] = query.split('&Signature=')
  return createVerify('RSA-SHA256').update(content).verify(input.spCert, decodeURIComponent(signature), 'base64')
}

console.log(
  JSON.stringify({
    decisions,
    signed: Object.fromEntries(Object.entries(signed).map(([name, xml]) => [name, Buffer.from(xml).toString('base64')])),
    posts: input.posts.map(verifyPost),
    redirects: input.redirects.map(verifyRedirect),
  }),
)
