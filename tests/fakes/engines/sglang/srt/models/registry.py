class ModelRegistry:
    @staticmethod
    def get_supported_archs():
        return {"LlamaForCausalLM"}
