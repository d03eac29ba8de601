// The protocol between these programs and the test that runs them: the line "visit URL" asks the test to open the URL in a user's browser.
// The test answers with the URL to which the browser was redirected. The result is one line of JSON.
import { createInterface } from 'node:readline'

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()

export async function visit(url) {
  console.log(`visit ${url}`)
  const { value, done } = await lines.next()
  if (done) throw new Error('no browser visited the page')
  return new URL(value)
}

export function report(result) {
  console.log(`report ${JSON.stringify(result)}`)
  process.exit(0)
}
