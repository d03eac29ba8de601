// How these programs talk to the test that runs them: a line "visit URL" asks it to send a person there, and the line that it answers is the
// URL that the person's browser was led back to. What came out is one line of JSON.
import { createInterface } from 'node:readline'

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()

export async function visit(url) {
  console.log(`visit ${url}`)
  const { value, done } = await lines.next()
  if (done) throw new Error('nobody visited the page')
  return new URL(value)
}

export function tell(result) {
  console.log(`told ${JSON.stringify(result)}`)
  process.exit(0)
}

export const { ISSUER, CLIENT_ID, CLIENT_SECRET, REDIRECT_URI } = process.env
