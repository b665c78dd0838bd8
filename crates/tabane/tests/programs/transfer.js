// A file by HTTP: `transfer.js serve PORT FILE`, `transfer.js fetch URL FILE`.
const fs = require('fs');
const http = require('http');
const { pipeline } = require('stream');

const [what, where, path] = process.argv.slice(2);
const done = (error) => { if (error) { console.error(error); process.exit(1); } };
if (what === 'serve') {
  http.createServer((request, response) => {
    console.error('asked by', request.socket.remoteAddress);
    pipeline(fs.createReadStream(path), response, () => {});
  }).listen(Number(where));
} else {
  http.get(where, (response) => {
    if (response.statusCode !== 200) { done(new Error(response.statusCode)); }
    pipeline(response, fs.createWriteStream(path), done);
  }).on('error', done);
}
